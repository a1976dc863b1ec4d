package openapi

import (
	_ "embed"
	"encoding/json"
	"net/url"
	"reflect"
	"strings"
	"sync"
)

// markersText has the properties of Kubernetes' types that reflection cannot see, because they are
// comments in their source: how lists and maps merge, default values
// (https://kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy), fields that
// are required or optional in spite of their tags, and the permitted values of strings. A test
// generates it from the sources. A line names a package; below it, each line is a type or a field
// with its properties.
//
//go:embed markers.txt
var markersText string

// markers holds the properties of a type or of one of its fields.
type markers struct {
	listType string
	listKeys []string
	mapType  string
	value    json.RawMessage
	enum     []string
	// required and optional overrule the JSON tag; at most one is set.
	required, optional bool
}

// markersOf returns the properties of field name of t, or of t if name is empty.
func markersOf(t reflect.Type, name string) markers {
	key := t.PkgPath() + "." + t.Name()
	if name != "" {
		key += "." + name
	}
	return parsedMarkers()[key]
}

var parsedMarkers = sync.OnceValue(func() map[string]markers {
	all := map[string]markers{}
	pkg := ""
	for line := range strings.Lines(markersText) {
		words := strings.Fields(line)
		if len(words) == 1 {
			pkg = words[0]
			continue
		}
		var m markers
		for _, word := range words[1:] {
			switch what, value, _ := strings.Cut(word, "="); what {
			case "list":
				m.listType = value
			case "key":
				m.listKeys = append(m.listKeys, value)
			case "map":
				m.mapType = value
			case "default":
				m.value = json.RawMessage(value)
			case "enum":
				if value, err := url.PathUnescape(value); err == nil { // some have spaces
					m.enum = append(m.enum, value)
				}
			case "required":
				m.required = true
			case "optional":
				m.optional = true
			}
		}
		all[pkg+"."+words[0]] = m
	}
	return all
})

// put writes the markers into a schema.
func (m markers) put(s *Schema) {
	s.ListType, s.ListMapKeys, s.MapType = m.listType, m.listKeys, m.mapType
	if m.enum != nil {
		s.Enum = m.enum
	}
	if m.value != nil {
		s.Default = m.value
	}
}
