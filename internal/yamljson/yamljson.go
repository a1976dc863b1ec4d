// Package yamljson converts YAML to JSON within limits. It is what sigs.k8s.io/yaml does, which
// writes the value of an alias as often as it occurs, however much that is.
//
//	text, twice, err := yamljson.Convert(ctx, body, yamljson.Limits{Depth: 256, Bytes: 16 << 20}, true)
package yamljson

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml/goyaml.v2"
)

// maxNodes bounds the number of values in a YAML text, because the parser takes about 500
// bytes for each scalar, list and map. Clients that send large objects send JSON.
const maxNodes = 60_000

var errNodes = fmt.Errorf("it may have more than %d values; JSON may have more", maxNodes)

// Limits limits the result of a conversion.
type Limits struct {
	// Depth is the maximum number of levels of lists and maps.
	Depth int
	// Bytes is the maximum size of the JSON text.
	Bytes int
}

// Convert returns text, of one YAML document, as JSON. With strict it also returns an error for
// each key that a map has twice.
func Convert(ctx context.Context, text []byte, limits Limits, strict bool) (out []byte, twice error, err error) {
	if nodes := mostNodes(text); nodes > maxNodes {
		return nil, nil, errNodes
	}
	var tree any
	if strict {
		twice = yaml.UnmarshalStrict(text, &tree)
		if errors.As(twice, new(*yaml.TypeError)) {
			tree = nil
			err = yaml.Unmarshal(text, &tree)
		} else {
			err, twice = twice, nil
		}
	} else {
		err = yaml.Unmarshal(text, &tree)
	}
	if err != nil {
		return nil, nil, err
	}
	w := writer{ctx: ctx, limits: limits}
	if err := w.value(tree, 0); err != nil {
		return nil, nil, err
	}
	return w.out, twice, nil
}

// mostNodes bounds the scalars, lists and maps in text: each but the first comes
// behind a line break or an indicator.
func mostNodes(text []byte) int {
	n := 1
	for i, c := range text {
		switch c {
		case ',', '[', '{', '\n', '\r', ':':
			n++
		case '-', '?':
			if i+1 < len(text) && (text[i+1] == ' ' || text[i+1] == '\t') {
				n++
			}
		}
	}
	return n
}

// writer writes a tree as JSON.
type writer struct {
	ctx context.Context
	out []byte
	// done is the number of values so far.
	done   int
	limits Limits
}

func (w *writer) value(v any, level int) error {
	if w.done++; w.done%4096 == 0 {
		if err := w.ctx.Err(); err != nil {
			return err
		}
	}
	switch {
	case level > w.limits.Depth:
		return fmt.Errorf("exceeded max depth: more than %d levels of nesting", w.limits.Depth)
	case len(w.out) > w.limits.Bytes:
		return fmt.Errorf("its aliases stand for more than %d bytes", w.limits.Bytes)
	}
	switch v := v.(type) {
	case map[any]any:
		return w.object(v, level)
	case []any:
		return w.array(v, level)
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return fmt.Errorf("%v is not a number that JSON has", v)
		}
	}
	return w.scalar(v)
}

func (w *writer) scalar(v any) error {
	text, err := json.Marshal(v)
	w.out = append(w.out, text...)
	return err
}

func (w *writer) array(items []any, level int) error {
	w.out = append(w.out, '[')
	for i, v := range items {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if err := w.value(v, level+1); err != nil {
			return err
		}
	}
	w.out = append(w.out, ']')
	return nil
}

func (w *writer) object(m map[any]any, level int) error {
	// Two keys may have the same name, such as 1 and "1". The order decides then.
	type member struct {
		name string
		v    any
	}
	members := make([]*member, 0, len(m))
	for key, v := range m {
		name, err := nameOf(key)
		if err != nil {
			return err
		}
		members = append(members, &member{name, v})
	}
	slices.SortFunc(members, func(a, b *member) int { return strings.Compare(a.name, b.name) })
	w.out = append(w.out, '{')
	for i, one := range members {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if err := w.scalar(one.name); err != nil {
			return err
		}
		w.out = append(w.out, ':')
		if err := w.value(one.v, level+1); err != nil {
			return err
		}
	}
	w.out = append(w.out, '}')
	return nil
}

// nameOf is the name that a key gets in JSON, as sigs.k8s.io/yaml gives it.
func nameOf(key any) (string, error) {
	switch k := key.(type) {
	case string:
		return k, nil
	case int:
		return strconv.Itoa(k), nil
	case int64:
		return strconv.FormatInt(k, 10), nil
	case bool:
		return strconv.FormatBool(k), nil
	case float64:
		switch text := strconv.FormatFloat(k, 'g', -1, 32); text {
		case "+Inf":
			return ".inf", nil
		case "-Inf":
			return "-.inf", nil
		case "NaN":
			return ".nan", nil
		default:
			return text, nil
		}
	}
	return "", fmt.Errorf("unsupported map key of type: %T", key)
}
