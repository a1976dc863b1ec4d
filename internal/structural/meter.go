package structural

import (
	"context"
	"math"

	"github.com/planekit/planekit/internal/budget"
)

// A meter charges small steps to a budget, many at once.
type meter struct {
	budget  *budget.Budget
	pending int
	// err is why the work must end.
	err error
}

func newMeter(ctx context.Context) *meter { return &meter{budget: budget.From(ctx)} }

// chargeEvery is the number of steps in one charge.
const chargeEvery = 1024

// work charges steps that are about to be done. It reports whether they may be done.
func (m *meter) work(steps int) bool {
	if m.err != nil {
		return false
	}
	if m.pending += steps; m.pending < chargeEvery && m.pending >= 0 {
		return true
	}
	m.err = m.budget.Product(1, m.pending)
	m.pending = 0
	return m.err == nil
}

// memory charges bytes that are about to be allocated. It reports whether they may be.
func (m *meter) memory(bytes int) bool {
	if m.err == nil {
		m.err = m.budget.Memory(bytes)
	}
	return m.err == nil
}

// An extent is the size of a JSON value.
type extent struct {
	// values is the number of fields and items, and bytes what the value takes: its maps and lists, and
	// its text, which is written a few times before a request ends.
	values, bytes int
}

// The memory of a value in a map or a list, and the factors by which a request has it in memory at once.
const (
	slotSize, mapSize, leastSlots = 16, 48, 8
	treeFactor, textFactor        = 3, 4
)

func plus(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}

func (e *extent) add(other extent) {
	e.values, e.bytes = plus(e.values, other.values), plus(e.bytes, other.bytes)
}

// mapExtent is the extent of a map without its fields.
var mapExtent = extent{values: 1, bytes: treeFactor*(mapSize+leastSlots*slotSize) + 2*textFactor}

// fieldExtent returns the extent of a field without its value, listExtent that of a list without its items, and
// textExtent that of a text, or a number that is written with so many characters.
func fieldExtent(name string) extent {
	return extent{bytes: treeFactor*4*slotSize + textFactor*(len(name)+4)}
}

func listExtent(n int) extent {
	return extent{values: 1, bytes: treeFactor*(mapSize+slotSize*n) + 2*textFactor}
}

func textExtent(length int) extent { return extent{values: 1, bytes: textFactor * (length + 3)} }

// scalarExtent returns the extent of a value that is no map and no list.
func scalarExtent(v any) extent {
	if text, ok := v.(string); ok {
		return textExtent(len(text))
	}
	return textExtent(8)
}
