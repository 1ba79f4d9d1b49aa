from jazz_select.evaluation.cases import Case as Case
from jazz_select.evaluation.cases import load_cases as load_cases
from jazz_select.evaluation.index import indexed as indexed
from jazz_select.evaluation.route import Asked as Asked
from jazz_select.evaluation.route import Outcome as Outcome
from jazz_select.evaluation.route import Policy as Policy
from jazz_select.evaluation.route import Route as Route
from jazz_select.evaluation.route import routes as routes
