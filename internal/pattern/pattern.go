// Package pattern matches regular expressions and counts what that takes.
//
//	p, err := pattern.Compile(b, `^(.{0,30}[ab]){30}x$`)
//	ok, err := p.Match(b, text)
//
// Go's regular expressions take time in proportion to the text and to the expression's program. A short
// expression can have a long program, because counted repetitions are written out, so that a text of a few
// kilobytes takes seconds. Compile charges for the program before it is made. Match charges the steps that
// it takes, and ends with the budget.
//
// Expressions have the syntax and the meaning of package regexp.
package pattern

import (
	"math"
	"regexp"
	"regexp/syntax"
	"sync"

	"github.com/planekit/planekit/internal/budget"
)

// A Pattern is a compiled regular expression. It may be used by many goroutines.
type Pattern struct {
	fast *regexp.Regexp
	// program returns the program that Match runs where fast could take long. It is made at the first call.
	program func() *syntax.Prog
	size    int
	queues  sync.Pool
}

// instructionSize is the memory of an instruction in a compiled expression, in bytes.
const instructionSize = 100

// Compile compiles an expression, whose program it charges to b. Its errors are those of
// [regexp.Compile] and of the budget.
func Compile(b *budget.Budget, text string) (*Pattern, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	size := sizeOf(parsed)
	if err := b.Product(size, 10); err != nil {
		return nil, err
	}
	if size > freeSize {
		if err := b.Memory(size * instructionSize); err != nil {
			return nil, err
		}
	}
	fast, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	p := &Pattern{fast: fast, size: size}
	p.program = sync.OnceValue(func() *syntax.Prog {
		parsed, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			return nil
		}
		program, _ := syntax.Compile(parsed.Simplify()) // it never fails
		return program
	})
	p.queues.New = func() any { return newQueues(len(p.program().Inst)) }
	return p, nil
}

// freeSize is the size of programs whose memory is not charged: there are many, and definitions may have
// 1,000 of them.
const freeSize = 1000

// Size returns about how many instructions the program has.
func (p *Pattern) Size() int { return p.size }

// String returns the expression.
func (p *Pattern) String() string { return p.fast.String() }

// Regexp returns the expression for other uses. The caller charges for them.
func (p *Pattern) Regexp() *regexp.Regexp { return p.fast }

// Bound returns how many steps it may take to search a text of n bytes once.
func (p *Pattern) Bound(n int) int {
	if p.size > math.MaxInt32 || n > math.MaxInt32-1 {
		return math.MaxInt
	}
	return p.size * (n + 1)
}

// shortMatch bounds the steps of a match that is not counted.
const shortMatch = 500

// Match reports whether text contains a match. It charges the steps of that to b.
func (p *Pattern) Match(b *budget.Budget, text string) (bool, error) {
	if bound := p.Bound(len(text)); bound <= shortMatch {
		if err := b.Work(bound); err != nil {
			return false, err
		}
		return p.fast.MatchString(text), nil
	}
	return p.count(b, text)
}

// sizeOf returns how many instructions the program for an expression has, about.
func sizeOf(re *syntax.Regexp) int {
	size := 1
	for _, sub := range re.Sub {
		size = plus(size, plus(sizeOf(sub), 1))
	}
	switch re.Op {
	case syntax.OpLiteral:
		size = len(re.Rune) + 1
	case syntax.OpCharClass:
		size = 2
	case syntax.OpRepeat:
		size = times(sizeOf(re.Sub[0])+1, max(re.Min, re.Max, 1))
	}
	return size
}

func plus(a, b int) int {
	if a > math.MaxInt32-b {
		return math.MaxInt32
	}
	return a + b
}

func times(a, b int) int {
	if b > 0 && a > math.MaxInt32/b {
		return math.MaxInt32
	}
	return a * b
}
