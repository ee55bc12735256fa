"""From a model's configuration to bytes on devices, and from there to "it fits".

Belongs here: pure functions over models, matrix rows and cards, and readers of the headers of
model files. Does not belong here: probing, wording of reports, constants of engines (they are
rows of the matrix with their sources). Callers use `source.find_model`, `fit.predict`,
`workload.predict_workload`, `ladder.ladder`, `advice.changes` and `survey.survey`.
"""
