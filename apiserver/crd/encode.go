package crd

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// MarshalJSON implements [json.Marshaler]. Fields are sorted by name, as in kube-apiserver.
func (o *Object) MarshalJSON() ([]byte, error) {
	metadata, err := json.Marshal(&o.ObjectMeta)
	if err != nil {
		return nil, err
	}
	names := append(slices.Collect(maps.Keys(o.Fields)), "metadata")
	if o.APIVersion != "" {
		names = append(names, "apiVersion")
	}
	if o.Kind != "" {
		names = append(names, "kind")
	}
	slices.Sort(names)
	out := append(make([]byte, 0, 2*len(metadata)+256), '{')
	for i, name := range slices.Compact(names) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendText(out, name), ':')
		v, ok := o.Fields[name]
		switch {
		case ok:
			out, err = appendValue(out, v)
		case name == "apiVersion":
			out = appendText(out, o.APIVersion)
		case name == "kind":
			out = appendText(out, o.Kind)
		default:
			out = append(out, metadata...)
		}
		if err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

// appendValue writes a value of a field as [json.Marshal] does, to which it leaves what is rare.
func appendValue(out []byte, v any) (_ []byte, err error) {
	switch v := v.(type) {
	case string:
		return appendText(out, v), nil
	case bool:
		return strconv.AppendBool(out, v), nil
	case int64:
		return strconv.AppendInt(out, v, 10), nil
	case []any:
		if v == nil {
			break
		}
		out = append(out, '[')
		for i, item := range v {
			if i > 0 {
				out = append(out, ',')
			}
			if out, err = appendValue(out, item); err != nil {
				return nil, err
			}
		}
		return append(out, ']'), nil
	case map[string]any:
		if v == nil {
			break
		}
		return appendFields(out, v)
	}
	data, err := json.Marshal(v)
	return append(out, data...), err
}

func appendFields(out []byte, fields map[string]any) (_ []byte, err error) {
	out = append(out, '{')
	var few [16]string
	names := few[:0]
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendText(out, name), ':')
		if out, err = appendValue(out, fields[name]); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

// appendText quotes a text. Most have no character that must be escaped.
func appendText(out []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			data, _ := json.Marshal(text) // a text: it cannot fail
			return append(out, data...)
		}
	}
	return append(append(append(out, '"'), text...), '"')
}
