import dspy
from dspy.utils import DummyLM

import devmem


class Assistant(dspy.Module):
    def __init__(self, memory):
        super().__init__()
        self.memory = memory
        self.answer = dspy.Predict("context, question -> answer")

    def forward(self, question):
        context = self.memory.context(question)
        answered = self.answer(context=context, question=question)
        self.memory.add([{"role": "user", "content": question}, {"role": "assistant", "content": answered.answer}])
        return answered


dspy.configure(lm=DummyLM({"June 2nd": {"answer": "On June 2nd."}, "launch": {"answer": "I do not know."}}))
notes = devmem.open("notes.db")
notes.add("Ann moved the launch to June 2nd.", user="ann")
for user in ("ann", "bob"):
    print(Assistant(notes.scoped(user=user))(question="When is the launch?").answer)
