package pattern

import (
	"regexp/syntax"
	"unicode/utf8"

	"github.com/planekit/planekit/internal/budget"
)

// A queue is a set of instructions in the order in which they were added.
type queue struct {
	sparse []uint32
	dense  []uint32
}

func (q *queue) has(pc uint32) bool {
	at := q.sparse[pc]
	return int(at) < len(q.dense) && q.dense[at] == pc
}

func (q *queue) add(pc uint32) {
	q.sparse[pc] = uint32(len(q.dense))
	q.dense = append(q.dense, pc)
}

// queues are the instructions at which the machine is before and after a character.
type queues struct {
	now, next queue
	stack     []uint32
}

func newQueues(size int) *queues {
	return &queues{
		now:  queue{make([]uint32, size), make([]uint32, 0, size)},
		next: queue{make([]uint32, size), make([]uint32, 0, size)},
	}
}

// chargeEvery is the number of steps in one charge.
const chargeEvery = 10_000

// count is Match by a machine that follows all alternatives at once, as package regexp does for long texts, and
// counts the instructions.
func (p *Pattern) count(b *budget.Budget, text string) (bool, error) {
	program := p.program()
	q := p.queues.Get().(*queues)
	defer p.queues.Put(q)
	q.now.dense = q.now.dense[:0]
	steps, before := 0, rune(-1)
	onlyAtStart := program.StartCond()&syntax.EmptyBeginText != 0
	for at := 0; ; {
		r, width := rune(-1), 0
		if at < len(text) {
			r, width = utf8.DecodeRuneInString(text[at:])
		}
		flags := syntax.EmptyOpContext(before, r)
		steps++
		if at == 0 || !onlyAtStart {
			steps += q.follow(program, &q.now, uint32(program.Start), flags)
		}
		if len(q.now.dense) == 0 && onlyAtStart {
			return false, b.Work(steps)
		}
		after := rune(-1)
		if at+width < len(text) {
			after, _ = utf8.DecodeRuneInString(text[at+width:])
		}
		nextFlags := syntax.EmptyOpContext(r, after)
		q.next.dense = q.next.dense[:0]
		for _, pc := range q.now.dense {
			steps++
			inst := &program.Inst[pc]
			switch inst.Op {
			case syntax.InstMatch:
				return true, b.Work(steps)
			case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
				if width > 0 && matches(inst, r) {
					steps += q.follow(program, &q.next, inst.Out, nextFlags)
				}
			}
		}
		if width == 0 {
			return false, b.Work(steps)
		}
		if steps > chargeEvery {
			if err := b.Work(steps); err != nil {
				return false, err
			}
			steps = 0
		}
		q.now, q.next = q.next, q.now
		before, at = r, at+width
	}
}

func matches(inst *syntax.Inst, r rune) bool {
	switch inst.Op {
	case syntax.InstRuneAny:
		return true
	case syntax.InstRuneAnyNotNL:
		return r != '\n'
	case syntax.InstRune1:
		return r == inst.Rune[0]
	}
	return inst.MatchRune(r)
}

// follow adds to q the instruction at pc, and those that can be reached from it without a character. It returns
// how many there were.
func (q *queues) follow(program *syntax.Prog, to *queue, pc uint32, flags syntax.EmptyOp) (steps int) {
	q.stack = append(q.stack[:0], pc)
	for len(q.stack) > 0 {
		pc := q.stack[len(q.stack)-1]
		q.stack = q.stack[:len(q.stack)-1]
		steps++
		if to.has(pc) {
			continue
		}
		to.add(pc)
		inst := &program.Inst[pc]
		switch inst.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			q.stack = append(q.stack, inst.Arg, inst.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(inst.Arg)&^flags == 0 {
				q.stack = append(q.stack, inst.Out)
			}
		case syntax.InstCapture, syntax.InstNop:
			q.stack = append(q.stack, inst.Out)
		}
	}
	return steps
}
