package walk

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// operation is a method of a path that a server describes.
type operation struct {
	method, path string
	consumes     []string
	// parameters lists the parameters of the query.
	parameters []string
	action     string
	// apiVersion and kind are those of the body.
	apiVersion, kind string
}

// operations reads the OpenAPI document of a server.
func (s *side) operations(t *testing.T) []operation {
	t.Helper()
	got := s.send(t, request{method: "GET", path: "/openapi/v2"})
	if got.code != 200 {
		t.Fatalf("GET /openapi/v2 of %s = %d, want 200", s.name, got.code)
	}
	type parameter struct{ Name, In, Ref string }
	type method struct {
		Consumes   []string
		Parameters []parameter
		Action     string                                `json:"x-kubernetes-action"`
		Kind       struct{ Group, Version, Kind string } `json:"x-kubernetes-group-version-kind"`
	}
	var document struct {
		Parameters map[string]parameter
		Paths      map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(got.body), `"$ref"`, `"ref"`)), &document); err != nil {
		t.Fatal(err)
	}
	query := func(all []parameter) (names []string) {
		for _, p := range all {
			if name, ok := strings.CutPrefix(p.Ref, "#/parameters/"); ok {
				p = document.Parameters[name]
			}
			if p.In == "query" {
				names = append(names, p.Name)
			}
		}
		return names
	}
	var all []operation
	for _, path := range slices.Sorted(maps.Keys(document.Paths)) {
		var shared []parameter
		if raw := document.Paths[path]["parameters"]; raw != nil {
			if err := json.Unmarshal(raw, &shared); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(document.Paths[path])) {
			if name == "parameters" {
				continue
			}
			var m method
			if err := json.Unmarshal(document.Paths[path][name], &m); err != nil {
				t.Fatalf("operation %s of %s: %v, want parameters that can be read", name, path, err)
			}
			o := operation{method: strings.ToUpper(name), path: path, consumes: m.Consumes, action: m.Action, kind: m.Kind.Kind,
				apiVersion: strings.TrimPrefix(m.Kind.Group+"/"+m.Kind.Version, "/"), parameters: append(query(shared), query(m.Parameters)...)}
			slices.Sort(o.parameters)
			o.parameters = slices.Compact(o.parameters)
			all = append(all, o)
		}
	}
	return all
}
