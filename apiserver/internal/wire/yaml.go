package wire

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

// maxYAMLNodes bounds what a YAML text may be made of, for the parser takes about 500
// bytes for each scalar, list and map. Clients that send large objects send JSON.
const maxYAMLNodes = 60_000

var errYAMLNodes = fmt.Errorf("it may have more than %d values; JSON may have more", maxYAMLNodes)

// YAMLToJSON returns text, of one YAML document, as JSON. With strict it also returns an
// error for each key that a map has twice. It is what sigs.k8s.io/yaml does, which writes
// what aliases stand for as often as they do, however much that is.
func YAMLToJSON(ctx context.Context, text []byte, strict bool) (out []byte, twice error, err error) {
	if nodes := mostYAMLNodes(text); nodes > maxYAMLNodes {
		return nil, nil, errYAMLNodes
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
	w := yamlWriter{ctx: ctx, most: MaxBody + len(text)}
	if err := w.value(tree, 0); err != nil {
		return nil, nil, err
	}
	return w.out, twice, nil
}

// mostYAMLNodes bounds the scalars, lists and maps in text: each but the first comes
// behind a line break or an indicator.
func mostYAMLNodes(text []byte) int {
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

// yamlWriter writes a tree as JSON.
type yamlWriter struct {
	ctx  context.Context
	out  []byte
	most int // bytes
	done int
}

func (w *yamlWriter) value(v any, level int) error {
	if w.done++; w.done%4096 == 0 {
		if err := w.ctx.Err(); err != nil {
			return err
		}
	}
	switch {
	case level > MaxDepth:
		return fmt.Errorf("exceeded max depth: more than %d levels of nesting", MaxDepth)
	case len(w.out) > w.most:
		return fmt.Errorf("its aliases stand for more than %d bytes", w.most)
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

func (w *yamlWriter) scalar(v any) error {
	text, err := json.Marshal(v)
	w.out = append(w.out, text...)
	return err
}

func (w *yamlWriter) array(items []any, level int) error {
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

func (w *yamlWriter) object(m map[any]any, level int) error {
	// Two keys may have the same name, such as 1 and "1". The order decides then.
	type member struct {
		name string
		v    any
	}
	members := make([]member, 0, len(m))
	for key, v := range m {
		name, err := yamlName(key)
		if err != nil {
			return err
		}
		members = append(members, member{name, v})
	}
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
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

// yamlName is the name that a key gets in JSON, as sigs.k8s.io/yaml gives it.
func yamlName(key any) (string, error) {
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
