package requests

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/discovery"
)

// discovered returns the resources of each version of a group, a line each: all that discovery says of them.
func (s *side) discovered(t *testing.T) map[string][]string {
	t.Helper()
	read := func(path string, into any) {
		q, err := http.NewRequestWithContext(t.Context(), "GET", s.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if s.token != "" {
			q.Header.Set("Authorization", "Bearer "+s.token)
		}
		got, err := s.client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		data, err := io.ReadAll(got.Body)
		if err != nil || got.StatusCode != 200 {
			t.Fatalf("GET %s of %s = %d %.200s, %v, want 200", path, s.name, got.StatusCode, data, err)
		}
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatalf("GET %s of %s = %.200s: %v", path, s.name, data, err)
		}
	}
	var groups metav1.APIGroupList
	read("/apis", &groups)
	paths := []string{"/api/v1"}
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			paths = append(paths, "/apis/"+v.GroupVersion)
		}
	}
	all := map[string][]string{}
	for _, path := range paths {
		var list metav1.APIResourceList
		read(path, &list)
		for _, r := range list.APIResources {
			slices.Sort(r.Verbs)
			all[path] = append(all[path], fmt.Sprintf("%s %q %s namespaced=%v kind=%s/%s/%s verbs=%v short=%v categories=%v stored=%s",
				r.Name, r.SingularName, path, r.Namespaced, r.Group, r.Version, r.Kind, r.Verbs, r.ShortNames, r.Categories, r.StorageVersionHash))
		}
	}
	return all
}

// unserved are the resources that planekit does not have, by version; "" stands for all of it. COMPATIBILITY.md names them,
// except for definitions, which are an extension of a plane that these tests leave out.
var unserved = map[string][]string{
	"/api/v1":                       {"bindings", "componentstatuses"},
	"/apis/apiextensions.k8s.io/v1": {""},
	"/apis/resource.k8s.io/v1":      {""},
	"/apis/storage.k8s.io/v1":       {"volumeattributesclasses"},
}

// storedNewer are the resources that Kubernetes still stores in an older version, so that the release before can read
// them, and planekit in the one that it serves. COMPATIBILITY.md names them.
var storedNewer = strings.NewReplacer(
	storageHash("v1", "MutatingAdmissionPolicy"), storageHash("v1beta1", "MutatingAdmissionPolicy"),
	storageHash("v1", "MutatingAdmissionPolicyBinding"), storageHash("v1beta1", "MutatingAdmissionPolicyBinding"))

func storageHash(version, kind string) string {
	return "stored=" + discovery.StorageVersionHash("admissionregistration.k8s.io", version, kind)
}

// TestDiscovery: discovery says of every resource that both have what kube-apiserver's does: names, verbs, subresources,
// kinds, categories and the version in which it is stored.
func TestDiscovery(t *testing.T) {
	theirs, ours := servers(t)
	want, got := theirs.discovered(t), ours.discovered(t)
	for _, lines := range got {
		for i := range lines {
			lines[i] = storedNewer.Replace(lines[i])
		}
	}
	for path, lines := range want {
		for _, line := range lines {
			name, _, _ := strings.Cut(line, " ")
			if !slices.Contains(got[path], line) && !slices.Contains(unserved[path], name) && !slices.Contains(unserved[path], "") {
				t.Errorf("missing is %s", line)
			}
		}
	}
	for path, lines := range got {
		for _, line := range lines {
			if want[path] != nil && !slices.Contains(want[path], line) {
				t.Errorf("planekit alone has %s", line)
			}
		}
	}
}
