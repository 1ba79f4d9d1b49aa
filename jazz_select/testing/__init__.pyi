# The public names, each with its home: they stand here and nowhere else.
from jazz_select.testing.contracts import check_chat_model as check_chat_model
from jazz_select.testing.contracts import check_claim_store as check_claim_store
from jazz_select.testing.contracts import check_decision_model as check_decision_model
from jazz_select.testing.contracts import check_embedder as check_embedder
from jazz_select.testing.contracts import check_flow_store as check_flow_store
from jazz_select.testing.contracts import check_layouts as check_layouts
from jazz_select.testing.contracts import check_second_vectors as check_second_vectors
from jazz_select.testing.doubles import LIES as LIES
from jazz_select.testing.doubles import Cassette as Cassette
from jazz_select.testing.doubles import ListMemory as ListMemory
from jazz_select.testing.doubles import MemoryClaims as MemoryClaims
from jazz_select.testing.doubles import Recorded as Recorded
from jazz_select.testing.doubles import ScriptedDecider as ScriptedDecider
from jazz_select.testing.doubles import ScriptedModel as ScriptedModel
from jazz_select.testing.doubles import likely as likely
from jazz_select.testing.embedders import FailingEmbedder as FailingEmbedder
from jazz_select.testing.embedders import HashEmbedder as HashEmbedder
from jazz_select.testing.log_contract import check_log_store as check_log_store
from jazz_select.testing.provider_cases import PROVIDER_CASES as PROVIDER_CASES
from jazz_select.testing.provider_cases import ProviderCase as ProviderCase
from jazz_select.testing.provider_cases import check_cancelling as check_cancelling
from jazz_select.testing.provider_cases import check_provider_case as check_provider_case

__all__: list[str]
