package jsonscan

import (
	"context"
	"slices"
	"strconv"
	"strings"
)

// These limit the results of Duplicates, by number as in sigs.k8s.io/json and in bytes.
const (
	maxDuplicates     = 100
	maxDuplicateBytes = 64 << 10
)

// Duplicates returns the paths, such as spec.containers[0].name, of members that an object of data
// has more than once. Each path is returned once; if there are many, only the first ones. Its
// errors are those of Check.
func Duplicates(ctx context.Context, data []byte, depth int) ([]string, error) {
	v := &duplicates{room: maxDuplicateBytes}
	err := Scan(ctx, data, depth, v)
	return v.found, err
}

// duplicates is the visitor that finds duplicates.
type duplicates struct {
	stack []level
	found []string
	room  int // in bytes
}

// level is an open object or array.
type level struct {
	array bool
	index int    // of the next item
	name  []byte // of the current member, quoted
	// few holds the names so far; many holds them if there are more.
	few  []seen
	many map[string]bool // whether the name has been reported
}

type seen struct {
	name     []byte
	reported bool
}

// mostFew is the number of names that are compared one by one.
const mostFew = 8

func (v *duplicates) Begin(open byte, _ int) error {
	v.item()
	if len(v.stack) < cap(v.stack) {
		v.stack = v.stack[:len(v.stack)+1]
	} else {
		v.stack = append(v.stack, level{})
	}
	top := &v.stack[len(v.stack)-1]
	*top = level{array: open == '[', few: top.few[:0]}
	return nil
}

func (v *duplicates) End(int) {
	v.stack[len(v.stack)-1].many = nil
	v.stack = v.stack[:len(v.stack)-1]
}

func (v *duplicates) Scalar([]byte) error {
	v.item()
	return nil
}

// item counts a value that is an item of an array.
func (v *duplicates) item() {
	if len(v.stack) > 0 {
		if top := &v.stack[len(v.stack)-1]; top.array {
			top.index++
		}
	}
}

func (v *duplicates) Name(quoted []byte) error {
	top := &v.stack[len(v.stack)-1]
	top.name = quoted
	if top.again(Plain(quoted)) && len(v.found) < maxDuplicates && v.room > 0 {
		// The path occurs again if the parent itself is a duplicate.
		path := v.path()
		if v.room -= len(path); !slices.Contains(v.found, path) {
			v.found = append(v.found, path)
		}
	}
	return nil
}

// again records a name and reports whether this is its second occurrence.
func (l *level) again(name []byte) bool {
	if l.many != nil {
		reported, known := l.many[string(name)]
		if !known || !reported {
			l.many[string(name)] = known
		}
		return known && !reported
	}
	for i := range l.few {
		if s := &l.few[i]; string(s.name) == string(name) {
			first := !s.reported
			s.reported = true
			return first
		}
	}
	if l.few = append(l.few, seen{name: name}); len(l.few) > mostFew {
		l.many = make(map[string]bool, 4*mostFew)
		for _, s := range l.few {
			l.many[string(s.name)] = s.reported
		}
	}
	return false
}

// path returns the path of the current member.
func (v *duplicates) path() string {
	var out strings.Builder
	for i := range v.stack {
		l := &v.stack[i]
		if l.array {
			out.WriteString("[" + strconv.Itoa(l.index-1) + "]")
			continue
		}
		if i > 0 {
			out.WriteByte('.')
		}
		out.Write(Plain(l.name))
	}
	return out.String()
}
