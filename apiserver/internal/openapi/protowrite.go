package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// append appends the fields of a message, in the order of their names.
func (f *form) append(out []byte, object map[string]any) ([]byte, error) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		var err error
		field, known := f.fields[name]
		switch {
		case known:
			out, err = field.write(out, field.number, object[name])
		case strings.HasPrefix(name, "x-"):
			out, err = pairs(within(2, asYAML))(out, f.extensions, map[string]any{name: object[name]})
		case !f.lenient:
			err = errors.New("unknown property")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return out, nil
}

// write writes an object as a message.
func (f *form) write(out []byte, n protowire.Number, value any) ([]byte, error) {
	object, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%T is no object", value)
	}
	message, err := f.append(nil, object)
	return sized(out, n, message), err
}

func text(out []byte, n protowire.Number, value any) ([]byte, error) {
	s, ok := value.(string)
	if !ok {
		return nil, fmt.Errorf("%T is no string", value)
	}
	return sized(out, n, []byte(s)), nil
}

func truth(out []byte, n protowire.Number, value any) ([]byte, error) {
	b, ok := value.(bool)
	if !ok {
		return nil, fmt.Errorf("%T is no boolean", value)
	}
	return protowire.AppendVarint(protowire.AppendTag(out, n, protowire.VarintType), protowire.EncodeBool(b)), nil
}

func double(out []byte, n protowire.Number, value any) ([]byte, error) {
	f, ok := value.(float64)
	if !ok {
		return nil, fmt.Errorf("%T is no number", value)
	}
	return protowire.AppendFixed64(protowire.AppendTag(out, n, protowire.Fixed64Type), math.Float64bits(f)), nil
}

func integer(out []byte, n protowire.Number, value any) ([]byte, error) {
	f, ok := value.(float64)
	if !ok || f != math.Trunc(f) || math.Abs(f) >= 1<<63 {
		return nil, fmt.Errorf("%v is no integer", value)
	}
	return protowire.AppendVarint(protowire.AppendTag(out, n, protowire.VarintType), uint64(int64(f))), nil
}

// schemaOrTruth writes a choice of a schema and a boolean.
func schemaOrTruth(schema *form) write {
	return func(out []byte, n protowire.Number, value any) ([]byte, error) {
		if _, ok := value.(bool); ok {
			return within(2, truth)(out, n, value)
		}
		return within(1, schema.write)(out, n, value)
	}
}

// asYAML writes a value of any type as YAML, of which JSON is a subset.
func asYAML(out []byte, n protowire.Number, value any) ([]byte, error) {
	data, err := json.Marshal(value)
	return sized(out, n, data), err
}

// each writes every element of an array.
func each(element write) write {
	return func(out []byte, n protowire.Number, value any) ([]byte, error) {
		list, ok := value.([]any)
		if !ok {
			return nil, fmt.Errorf("%T is no array", value)
		}
		for i, v := range list {
			var err error
			if out, err = element(out, n, v); err != nil {
				return nil, fmt.Errorf("%d: %w", i, err)
			}
		}
		return out, nil
	}
}

// pairs writes an object as a list of messages with a name and a value.
func pairs(element write) write {
	return func(out []byte, n protowire.Number, value any) ([]byte, error) {
		object, ok := value.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%T is no object", value)
		}
		for _, name := range slices.Sorted(maps.Keys(object)) {
			pair, err := element(sized(nil, 1, []byte(name)), 2, object[name])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			out = sized(out, n, pair)
		}
		return out, nil
	}
}

// within writes a value as the field inner of a message of its own.
func within(inner protowire.Number, value write) write {
	return func(out []byte, n protowire.Number, v any) ([]byte, error) {
		message, err := value(nil, inner, v)
		return sized(out, n, message), err
	}
}

// placed writes a parameter by its place in the request.
func placed(by map[string]write) write {
	return func(out []byte, n protowire.Number, value any) ([]byte, error) {
		object, _ := value.(map[string]any)
		place, _ := object["in"].(string)
		if by[place] == nil {
			return nil, fmt.Errorf("parameter in %q", place)
		}
		return by[place](out, n, value)
	}
}

// sized appends a field of bytes.
func sized(out []byte, n protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(out, n, protowire.BytesType), content)
}
