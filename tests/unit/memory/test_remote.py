"""The server adapter where the server is gone, refuses, or answers nonsense."""

import base64
import shutil
import subprocess
import traceback
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from threading import Thread

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from jazz_select import ProceduralMemory
from jazz_select.errors import ConfigError, StoreUnavailableError
from jazz_select.memory.engines.qdrant_server import RemoteStore
from jazz_select.memory.engines.server_client import connect
from jazz_select.memory.engines.stored_points import Layout
from jazz_select.ports import FlowPoint, HybridQuery, SparseVector
from jazz_select.testing import HashEmbedder
from tests.qdrant_server import Certificate, EngineClient, LoopbackQdrant
from tests.unit.memory.cards import CARDS, card

KEY = "a-key-of-the-server"
OPENSSL = shutil.which("openssl") or ""

POINT = FlowPoint(
    agent_id="a",
    flow_id="one",
    fingerprint="1",
    dense=(1.0, 0.0),
    sparse=SparseVector(indices=(1,), values=(1.0,)),
    payload={"flow_id": "one"},
)
QUERY = HybridQuery(agent_id="a", dense=(1.0, 0.0), sparse=None, depth=1)


async def test_a_collection_that_somebody_removed_is_empty_and_made_again() -> None:
    client = EngineClient()
    store = RemoteStore(client, Layout(embedder="e", dim=2, lexical="l"))
    await store.upsert([POINT])
    (name,) = [each.name for each in (await client.get_collections()).collections]
    await client.delete_collection(name)
    assert (await store.search([QUERY]))[0].dense == {}
    await store.upsert([POINT])
    await client.delete_collection(name)
    await store.upsert([POINT])
    assert list((await store.search([QUERY]))[0].dense) == [store.key("a", "one")]
    await store.close()


async def test_moving_one_agent_removes_no_collection() -> None:
    client = EngineClient()
    old, new = (RemoteStore(client, Layout(embedder=name, dim=2, lexical="l")) for name in ("old", "new"))
    await old.upsert([POINT])
    await new.upsert([POINT])
    await new.forget_other_layouts("a")
    assert len((await client.get_collections()).collections) == 2, "another agent may be about to write there"
    assert await old.payloads("a") == {}
    await new.close()


class _Nonsense(BaseHTTPRequestHandler):
    """Answers every request as its path's server was told to."""

    def _answer(self) -> None:
        server = self.server
        status, body = server.answer  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
        length = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(length)
        self.send_response(status)  # pyright: ignore[reportUnknownArgumentType]
        self.send_header("Content-Length", str(len(body)))  # pyright: ignore[reportUnknownArgumentType]
        self.end_headers()
        self.wfile.write(body)  # pyright: ignore[reportUnknownArgumentType]

    do_GET = do_POST = do_PUT = _answer  # noqa: N815

    def log_message(self, *args: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        pass


ANSWERS: dict[str, tuple[int, bytes, str]] = {
    "refused": (401, b"{}", r"answered 401 Unauthorized\. Is api_key"),
    "read alone": (403, b'{"status": {"error": "Forbidden: Write access is required"}}', "Write access .* may write"),
    "no such place": (404, b"<html>nginx</html>", r"answered 404 Not Found: <html>nginx</html>\. Is it running"),
    "overloaded": (503, b"", "answered 503 Service Unavailable.* Its log"),
    "a full disk": (
        500,
        b'{"status": {"error": "No space left on device (os error 28)"}}',
        "No space left.* disk is full",
    ),
    "a full disk, by its status": (507, b"", "answered 507.* disk is full"),
    "another shape": (
        400,
        b'{"status": {"error": "Wrong input: Vector dimension error: expected dim: 3, got 64"}}',
        "expected dim: 3, got 64.* other vectors",
    ),
    "too many requests": (
        429,
        b'{"status": {"error": "Rate limiting exceeded"}}',
        "Rate limiting exceeded.* It is busy",
    ),
    "a proxy's problem": (400, b'{"error": {"message": "what is that?"}}', "what is that.* its own words say why"),
    "an endless text": (418, b"tea \x00\n" * 100_000, r"I'm a Teapot: tea.*…\. Is it running"),
    "deep JSON": (500, b"[" * 100_000, "answered 500"),
    "a page": (200, b"<html>hello</html>", "what is no JSON|what Qdrant does not answer"),
    "nothing": (200, b"", "Is it running, and is url that of a Qdrant server"),
    "null": (200, b"null", "Is it running, and is url that of a Qdrant server"),
}


@pytest.mark.parametrize(("status", "body", "said"), ANSWERS.values(), ids=ANSWERS)
async def test_whatever_a_server_answers_is_told_in_its_words_with_advice(status: int, body: bytes, said: str) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Nonsense)
    server.answer = (status, body)  # pyright: ignore[reportAttributeAccessIssue]
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        async with await ProceduralMemory.open(url=url, embedder=HashEmbedder()) as memory:
            with pytest.raises(StoreUnavailableError, match=said) as caught:
                await memory.recall("money back", "a")
        assert caught.value.url == url
        assert len(str(caught.value)) < 800
        assert str(caught.value).isprintable()
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://me:s3cret@127.0.0.1:1", "http://127.0.0.1:1"),
        ("http://me:s3cr%65t@127.0.0.1:1/qdrant/", "http://127.0.0.1:1/qdrant"),
        ("http://me:s3cret@127.0.0.1:notaport", "http://127.0.0.1:notaport"),
        ("ftp://me:s3cret@127.0.0.1", "ftp://127.0.0.1"),
        ("http://me:s3cret@", "http://"),
        ("http://127.0.0.1:1?api_key=s3cret", "http://127.0.0.1:1"),
        ("me:s3cret@qdrant.example.com:6333", "qdrant.example.com:6333"),
        ("http://me:s3cret word@127.0.0.1", "http://127.0.0.1"),
    ],
)
async def test_no_error_text_holds_a_password(url: str, shown: str) -> None:
    with pytest.raises((ConfigError, StoreUnavailableError)) as caught:
        async with await ProceduralMemory.open(url=url, embedder=HashEmbedder()) as memory:
            await memory.recall("money back", "a")
    told = "".join(traceback.format_exception(caught.value))
    assert shown in str(caught.value)
    assert "s3cr" not in told.replace(url, ""), "nor does a cause"
    assert "s3cr" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "refused"),
    [(f"{KEY}\n", False), (f"  {KEY}\r\n", False), (f"{KEY}\nmore", True), (f"{KEY}é", True), (f"{KEY}\x00", True)],
    ids=["a newline at its end", "space around it", "two lines", "another letter", "a null"],
)
async def test_a_key_is_one_line_and_stands_in_no_error_text(key: str, refused: bool) -> None:
    with LoopbackQdrant(api_key=KEY) as server:
        if refused:
            with pytest.raises(ConfigError, match="api_key must be one line") as caught:
                await ProceduralMemory.open(url=server.url, api_key=key, embedder=HashEmbedder())
            assert KEY not in str(caught.value)
            return
        async with await ProceduralMemory.open(url=server.url, api_key=key, embedder=HashEmbedder()) as memory:
            await memory.sync("a", CARDS)
            server.refuse = lambda _: (403, f"<p>{KEY} may not do that</p>".encode())
            with pytest.raises(StoreUnavailableError, match="… may not do that"):
                await memory.sync("a", CARDS)


async def test_of_a_key_where_long_words_are_cut_nothing_stays() -> None:
    with LoopbackQdrant(api_key=KEY) as server:
        async with await ProceduralMemory.open(url=server.url, api_key=KEY, embedder=HashEmbedder()) as memory:
            await memory.sync("a", CARDS)
            server.refuse = lambda _: (403, f"{'x' * 290}{KEY} may not do that".encode())
            with pytest.raises(StoreUnavailableError) as caught:
                await memory.sync("a", CARDS)
            assert KEY[:5] not in str(caught.value)


async def test_a_user_in_the_url_goes_along_as_a_proxy_asks() -> None:
    with LoopbackQdrant() as server:
        url = server.url.replace("//", "//me:p%40ss@")
        async with await ProceduralMemory.open(url=url, embedder=HashEmbedder()) as memory:
            await memory.list_flows("a")
        assert base64.b64decode(server.headers[-1]["authorization"].removeprefix("Basic ")) == b"me:p@ss"


@pytest.mark.parametrize("shape", ["127.0.0.1:{port}", "localhost:{port}", " http://127.0.0.1:{port}/ \n"])
@pytest.mark.parametrize("key", [None, KEY])
async def test_an_address_without_a_scheme_is_asked_without_tls_on_this_machine(shape: str, key: str | None) -> None:
    with LoopbackQdrant(api_key=key or "") as server:
        port = server.url.rpartition(":")[2]
        url = shape.format(port=port)
        async with await ProceduralMemory.open(
            url=url, api_key=key, grpc_port=server.grpc_port, embedder=HashEmbedder()
        ) as memory:
            await memory.sync("a", CARDS)
            assert await memory.recall("money back", "a")
            assert memory.asked_over.startswith("gRPC at")


@pytest.mark.parametrize("url", ["qdrant:6333", "10.0.0.7:6333", "qdrant.example.com"])
async def test_a_key_is_not_sent_anywhere_without_saying_how(url: str) -> None:
    with pytest.raises(ConfigError, match="https://"):
        await ProceduralMemory.open(url=url, api_key=KEY, embedder=HashEmbedder())
    await (await ProceduralMemory.open(url=url, embedder=HashEmbedder())).close()


async def test_a_key_without_encryption_is_told_once_and_not_of_this_machine(
    caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    caplog.set_level("INFO", "jazz_select")
    for url in ("http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1", "https://qdrant.example.com:1"):
        await (await ProceduralMemory.open(url=url, api_key=KEY, embedder=HashEmbedder())).close()
    assert not caplog.records
    for _ in range(3):
        url = "http://qdrant.example.com:1"
        await (await ProceduralMemory.open(url=url, api_key=KEY, embedder=HashEmbedder())).close()
    (said,) = [each.message for each in caplog.records]
    assert "without encryption" in said
    assert KEY not in said
    assert not recwarn.list, "the client's own warning is silent"


def _certificate(folder: Path) -> Certificate:
    """Of an authority of one's own, which signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "own authority")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(made.public_bytes(pem))
    plain = serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return Certificate(file=folder / "cert.pem", key_file=folder / "key.pem")


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR", None])
async def test_an_authority_of_ones_own_serves_both_ports(
    variable: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = _certificate(tmp_path)
    for each in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(each, raising=False)
    if variable == "SSL_CERT_FILE":
        monkeypatch.setenv(variable, str(certificate.file))
    elif variable:
        folder = tmp_path / "authorities"
        folder.mkdir()
        monkeypatch.setenv(variable, str(folder))
        own = x509.load_pem_x509_certificate(certificate.file.read_bytes())
        named = subprocess.run(
            [OPENSSL, "x509", "-hash", "-noout", "-in", str(certificate.file)],
            capture_output=True,
            check=True,
            text=True,
        )
        (folder / f"{named.stdout.strip()}.0").write_bytes(own.public_bytes(serialization.Encoding.PEM))
    with LoopbackQdrant(certificate=certificate, api_key=KEY) as server:
        async with await ProceduralMemory.open(
            url=server.url, api_key=KEY, grpc_port=server.grpc_port, embedder=HashEmbedder()
        ) as memory:
            if variable is None:
                with pytest.raises(StoreUnavailableError, match="SSL_CERT_FILE"):
                    await memory.recall("money back", "a")
                return
            await memory.sync("a", CARDS)
            assert await memory.recall("money back", "a")
            assert memory.asked_over.startswith("gRPC at")


async def test_a_server_without_tls_that_is_asked_over_it_says_so() -> None:
    with LoopbackQdrant() as server:
        url = server.url.replace("http:", "https:")
        async with await ProceduralMemory.open(url=url, embedder=HashEmbedder()) as memory:
            with pytest.raises(StoreUnavailableError, match="begin the url with http://"):
                await memory.recall("money back", "a")


async def test_answers_over_rest_are_asked_for_uncompressed() -> None:
    with LoopbackQdrant() as server:
        async with await ProceduralMemory.open(url=server.url, grpc_port=0, embedder=HashEmbedder()) as memory:
            await memory.sync("a", CARDS)
            await memory.recall("money back", "a")
        assert {each["accept-encoding"] for each in server.headers} == {"identity"}


async def test_a_batch_that_is_too_large_is_halved_until_it_fits() -> None:
    with LoopbackQdrant() as server:
        server.most_bytes = 150_000
        cards = [card(f"flow_{number}", "x" * 4_000) for number in range(60)]
        async with await ProceduralMemory.open(url=server.url, embedder=HashEmbedder(32)) as memory:
            report = await memory.sync("a", cards)
            assert len(report.created) == len(cards) == len(await memory.list_flows("a"))
            before = server.asked["REST PUT"]
            server.most_bytes = 20_000
            big = card("the_big_one", "y" * 20_000)
            with pytest.raises(StoreUnavailableError, match=r"413 .*the_big_one.* alone .* shorten") as caught:
                await memory.memorize(big, "a")
        assert "Payload reached size limit" in caught.value.problem
        assert before >= 8


async def test_a_write_is_bounded_in_bytes_however_few_flows_it_has() -> None:
    with LoopbackQdrant() as server:
        store = RemoteStore(connect(server.url), Layout(embedder="e", dim=2, lexical="l"))
        payload = {"description": "x" * 400_000}
        await store.upsert(
            [replace(POINT, flow_id=str(number), payload={**payload, "flow_id": str(number)}) for number in range(50)]
        )
        assert await store.count("a") == 50
        sizes = [int(each.get("content-length", 0)) for each in server.headers]
        assert max(sizes) < 9 << 20
        assert sum(sizes) > 19 << 20
        await store.close()


@pytest.mark.parametrize("url", ["http://127.0.0.1:notaport", "ftp://127.0.0.1"])
async def test_an_address_that_is_none_says_what_one_looks_like(url: str) -> None:
    with pytest.raises((ConfigError, StoreUnavailableError)) as caught:
        async with await ProceduralMemory.open(url=url, embedder=HashEmbedder()) as memory:
            await memory.recall("money back", "a")
    assert url in str(caught.value)


CUT_CREDENTIALS = [
    "http://user:hunter2#secret@127.0.0.1:6333",
    "http://user:hunter2/secret@127.0.0.1:6333",
    "http://user:hunter2?secret@127.0.0.1:6333",
    "http://user:123/secret@127.0.0.1:6333",
    "https://secret/hunter2@qdrant.example.com",
    "user:hunter2#secret@127.0.0.1:6333",
]


@pytest.mark.parametrize("url", CUT_CREDENTIALS)
async def test_a_password_that_ends_the_address_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigError, match="write them as %2F, %3F and %23") as raised:
        await ProceduralMemory.open(url=url, embedder=HashEmbedder(2))
    whole = "".join(traceback.format_exception(raised.value)).partition("ConfigError")[2]
    assert "secret" not in whole
    assert "hunter2" not in whole
