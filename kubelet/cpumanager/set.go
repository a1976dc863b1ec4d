package cpumanager

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxCPU is the greatest CPU number that ParseSet accepts. Linux supports 8192 CPUs.
const maxCPU = 1<<16 - 1

// Set is an immutable set of CPU numbers. The zero value is empty.
type Set struct {
	ids []int // ascending, without duplicates
}

// NewSet returns a set of CPU numbers.
func NewSet(cpus ...int) Set {
	ids := slices.Clone(cpus)
	slices.Sort(ids)
	return Set{slices.Compact(ids)}
}

// ParseSet parses a list of CPUs in the format of Linux, such as "0-3,7".
func ParseSet(list string) (Set, error) {
	var ids []int
	if list == "" {
		return Set{}, nil
	}
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		low, err := parseCPU(first)
		if err != nil {
			return Set{}, err
		}
		high, err := parseCPU(last)
		if err != nil {
			return Set{}, err
		}
		if low > high {
			return Set{}, fmt.Errorf("invalid range %q (%d > %d)", part, low, high)
		}
		for id := low; id <= high; id++ {
			ids = append(ids, id)
		}
		if len(ids) > 2*maxCPU {
			ids = NewSet(ids...).ids // a list may repeat its ranges, and must not grow without bounds
		}
	}
	return NewSet(ids...), nil
}

func parseCPU(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%.20q is not a CPU number", text)
	}
	if n > maxCPU {
		return 0, fmt.Errorf("CPU %d is greater than %d", n, maxCPU)
	}
	return int(n), nil
}

// String returns the set in the format that ParseSet accepts.
func (s Set) String() string {
	var b strings.Builder
	for i := 0; i < len(s.ids); {
		j := i
		for j+1 < len(s.ids) && s.ids[j+1] == s.ids[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(s.ids[i]))
		if j > i {
			b.WriteString("-" + strconv.Itoa(s.ids[j]))
		}
		i = j + 1
	}
	return b.String()
}

// Len returns the number of CPUs in the set.
func (s Set) Len() int { return len(s.ids) }

// List returns the CPUs in ascending order. The caller must not change it.
func (s Set) List() []int { return s.ids }

// Has reports whether the set contains a CPU.
func (s Set) Has(cpu int) bool {
	_, found := slices.BinarySearch(s.ids, cpu)
	return found
}

// Equal reports whether both sets have the same CPUs.
func (s Set) Equal(other Set) bool { return slices.Equal(s.ids, other.ids) }

// Union returns the CPUs that are in either set.
func (s Set) Union(other Set) Set { return NewSet(slices.Concat(s.ids, other.ids)...) }

// Minus returns the CPUs of s that are not in other.
func (s Set) Minus(other Set) Set {
	return s.filter(func(cpu int) bool { return !other.Has(cpu) })
}

// And returns the CPUs that are in both sets.
func (s Set) And(other Set) Set { return s.filter(other.Has) }

// Within reports whether other contains every CPU of s.
func (s Set) Within(other Set) bool { return s.Minus(other).Len() == 0 }

func (s Set) filter(keep func(cpu int) bool) Set {
	var ids []int
	for _, cpu := range s.ids {
		if keep(cpu) {
			ids = append(ids, cpu)
		}
	}
	return Set{ids}
}
