package structural

import "k8s.io/apimachinery/pkg/util/validation/field"

// kube-apiserver does not bound the errors of an object. If 30,000 items are wrong, and each error lists all the
// values that are allowed, they take gigabytes. These bound the errors of a validation, their texts in bytes, of
// which there are a few copies, and the steps of kube-openapi that word them.
const maxErrors, maxErrorBytes, maxWordingSteps = 500, 512 << 10, 10_000_000

// TooManyErrors returns the error that ends a list of errors that is not complete.
func TooManyErrors(path *field.Path) *field.Error {
	return &field.Error{Type: field.ErrorTypeTooMany, Field: path.String(), BadValue: field.OmitValueType{}, Detail: "too many errors, not all of them are listed"}
}

// A wrong is a value that is not valid, or has such values in it.
type wrong struct {
	schema *Schema
	// missing are the required fields that the value does not have, and foreign those that it may not have.
	missing, foreign []string
	// below holds the wrong values in it.
	below map[place]*wrong
	// brief is set if the errors of the nested schemas are not worded: that would take too long.
	brief bool
}

// locating finds the values that are wrong, until there are too many.
type locating struct {
	*pass
	// errors, bytes and steps are what may still come.
	errors, bytes, steps int
	full                 bool
}

func newLocating(c *pass) *locating {
	return &locating{pass: c, errors: maxErrors, bytes: maxErrorBytes, steps: maxWordingSteps}
}

// add reserves an error whose text has that many bytes. It reports whether there is room. There is, for the first.
func (l *locating) add(bytes, steps int) bool {
	first := l.errors == maxErrors
	l.errors, l.bytes, l.steps = l.errors-1, l.bytes-bytes, l.steps-steps
	if !first && min(l.errors, l.bytes, l.steps) < 0 {
		l.full = true
	}
	return !l.full && l.work(steps)
}

// wrong returns what is wrong in v, which is at a path of some bytes; nil if nothing is.
func (l *locating) wrong(s *Schema, v any, was *Pair, root bool, path int) *wrong {
	if l.full || !l.work(validSteps) || was.Equal() {
		return nil
	}
	w := &wrong{schema: s}
	isWrong := !l.ownValid(s, v)
	if isWrong && !l.own(w, v, path) {
		return nil
	}
	if !l.alsoValid(s, v) {
		if isWrong = true; !l.also(w, v, path) {
			return nil
		}
	}
	s.below(v, was, root, func(at place, part *Schema, v any, was *Pair) bool {
		if below := l.wrong(part, v, was, false, path+len(at.name)+placeBytes); below != nil {
			if w.below == nil {
				w.below = map[place]*wrong{}
			}
			w.below[at] = below
		}
		return !l.full && l.err == nil
	})
	if !isWrong && w.below == nil {
		return nil
	}
	return w
}

// placeBytes is about how long an index is in a path.
const placeBytes = 6

// own reserves the errors of v itself.
func (l *locating) own(w *wrong, v any, path int) bool {
	text := path + w.schema.checks.words
	if fields, ok := v.(map[string]any); ok {
		for _, name := range w.schema.checks.required {
			if _, ok := fields[name]; ok {
				continue
			}
			if !l.add(path+len(name)+errorWords, openapiSteps) {
				return w.missing != nil
			}
			w.missing = append(w.missing, name)
		}
		if w.schema.closed() {
			for _, name := range w.schema.foreign(fields, max(1, l.errors)) {
				if !l.add(path+len(name)+errorWords, openapiSteps) {
					return w.missing != nil || w.foreign != nil
				}
				w.foreign = append(w.foreign, name)
			}
		}
	}
	_, isText := v.(string)
	if isText || w.schema.checks.enum != nil {
		_, size := measured(v, l.bytes+1)
		text = plus(text, size)
	}
	return l.add(text, openapiSteps) || w.missing != nil || w.foreign != nil
}

// also reserves the errors of the nested schemas of v.
func (l *locating) also(w *wrong, v any, path int) bool {
	also := w.schema.checks.also
	values, size := measured(v, l.bytes+1)
	steps := product(also.count*openapiSteps, values)
	text := plus(path, product(values, plus(also.words, size)))
	if w.brief = steps > l.steps || text > l.bytes; w.brief {
		steps, text = openapiSteps, path+errorWords
	}
	return l.add(text, steps)
}

func product(a, b int) int {
	if b > 0 && a > maxExtent/b {
		return maxExtent
	}
	return a * b
}

// measured returns the number of values in v and about how long its text is, or less if that is more than most.
func measured(v any, most int) (values, bytes int) {
	values = 1
	add := func(v any) {
		n, size := measured(v, most-bytes)
		values, bytes = values+n, bytes+size
	}
	switch v := v.(type) {
	case string:
		return 1, len(v)
	case map[string]any:
		for name, x := range v {
			if bytes > most {
				break
			}
			bytes += len(name) + placeBytes
			add(x)
		}
	case []any:
		for _, x := range v {
			if bytes > most {
				break
			}
			add(x)
		}
	}
	return values, bytes + placeBytes
}

// findings collects errors until there are too many.
type findings struct {
	path  *field.Path
	errs  field.ErrorList
	bytes int
	full  bool
}

// add adds an error unless there are too many. It reports whether there may be more.
func (f *findings) add(err *field.Error) bool {
	if f.full {
		return false
	}
	_, size := measured(err.BadValue, maxErrorBytes)
	f.bytes += len(err.Field) + len(err.Detail) + size
	if f.full = len(f.errs) > 0 && (len(f.errs) >= maxErrors || f.bytes > maxErrorBytes); f.full {
		err = TooManyErrors(f.path)
	}
	f.errs = append(f.errs, err)
	return !f.full
}
