package pair

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Operation is a method of a path that a server describes.
type Operation struct {
	Method, Path string
	Consumes     []string
	// Parameters lists the parameters of the query.
	Parameters []string
	Action     string
	// APIVersion and Kind are those of the body.
	APIVersion, Kind string
}

// Operations reads the OpenAPI document of a server.
func (s *Side) Operations(t *testing.T) []Operation {
	t.Helper()
	got := s.Send(t, Request{Method: "GET", Path: "/openapi/v2"})
	if got.Code != 200 {
		t.Fatalf("GET /openapi/v2 of %s = %d, want 200", s.Name, got.Code)
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
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(got.Body), `"$ref"`, `"ref"`)), &document); err != nil {
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
	var all []Operation
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
			o := Operation{Method: strings.ToUpper(name), Path: path, Consumes: m.Consumes, Action: m.Action, Kind: m.Kind.Kind,
				APIVersion: strings.TrimPrefix(m.Kind.Group+"/"+m.Kind.Version, "/"), Parameters: append(query(shared), query(m.Parameters)...)}
			slices.Sort(o.Parameters)
			o.Parameters = slices.Compact(o.Parameters)
			all = append(all, o)
		}
	}
	return all
}
