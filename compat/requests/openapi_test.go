package requests

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// connections returns the operations of an OpenAPI v2 document that lead to other servers, a line each: method, path, id,
// action, kind, media types and parameters.
func (s *side) connections(t *testing.T) []string {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/openapi/v2", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+s.token)
	if s.token == "" {
		q.Header.Del("Authorization")
	}
	got, err := s.client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	data, err := io.ReadAll(got.Body)
	if err != nil || got.StatusCode != 200 {
		t.Fatalf("GET /openapi/v2 of %s = %d, %v, want 200", s.name, got.StatusCode, err)
	}
	type parameter struct{ Name, In, Type, Ref string }
	var document struct {
		Parameters map[string]parameter
		Paths      map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(data), `"$ref"`, `"ref"`)), &document); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, path := range slices.Sorted(maps.Keys(document.Paths)) {
		var shared []parameter
		if err := json.Unmarshal(document.Paths[path]["parameters"], &shared); err != nil && document.Paths[path]["parameters"] != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range shared {
			if name, ok := strings.CutPrefix(p.Ref, "#/parameters/"); ok {
				p = document.Parameters[name]
			}
			if p.Name != "pretty" {
				names = append(names, p.Name+" "+p.In+" "+p.Type)
			}
		}
		slices.Sort(names)
		for _, method := range []string{"get", "put", "post", "delete", "patch"} {
			var o struct {
				OperationID, Description string
				Action                   string            `json:"x-kubernetes-action"`
				Kind                     map[string]string `json:"x-kubernetes-group-version-kind"`
			}
			if err := json.Unmarshal(document.Paths[path][method], &o); err != nil {
				continue // no such method
			}
			if o.Action == "connect" || strings.HasSuffix(path, "/log") {
				lines = append(lines, fmt.Sprint(method, " ", path, " ", o.OperationID, ": ", o.Description, " ", o.Action, " ", o.Kind, " ", names))
			}
		}
	}
	return lines
}

// TestConnections: OpenAPI describes the subresources that lead to other servers as kube-apiserver's does. Programs that make
// a client from the document at run time need them.
func TestConnections(t *testing.T) {
	theirs, ours := servers(t)
	want, got := theirs.connections(t), ours.connections(t)
	if len(want) == 0 {
		t.Error("kube-apiserver describes no connections, want some")
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("missing is %s", line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("planekit alone has %s", line)
		}
	}
}
