package apiserver_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/planekit/planekit/storage/memstore"
)

const (
	tableMedia   = "application/json;as=Table;v=v1;g=meta.k8s.io"
	partialMedia = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	onePartial   = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
)

// TestUninitializedVisibility reads in every way there is: only requests that ask for
// hidden objects see one, with the field wherever there is JSON.
func TestUninitializedVisibility(t *testing.T) {
	_, jane, _ := initializing(t, memstore.New())
	jane.begin(podPath, pod("hidden", `,"labels":{"app":"x"}`))
	jane.create("/apis/apps/v1/namespaces/default/deployments", deployment("unrelated", 1))
	version := into[struct {
		Metadata struct{ ResourceVersion string }
	}](t, jane.do("GET", podPath, "")).Metadata.ResourceVersion
	for _, query := range []string{
		"", "resourceVersion=0", "limit=1", "labelSelector=app%3Dx", "fieldSelector=metadata.name%3Dhidden",
		"fieldSelector=spec.nodeName%3D", "resourceVersion=" + version + "&resourceVersionMatch=Exact", "pretty=true",
	} {
		for _, accept := range []string{"application/json", "application/yaml", protoMedia, tableMedia, partialMedia,
			strings.Replace(partialMedia, "json", "yaml", 1), "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"} {
			for _, path := range []string{podPath, "/api/v1/pods"} {
				text := jane.want(jane.do("GET", path+"?"+query, "", "Accept: "+accept), 200, "").body
				if strings.Contains(text, "hidden") || strings.Contains(text, "initializers") || strings.Contains(text, "remainingItemCount") {
					t.Errorf("%s?%s as %s shows %q", path, query, accept, text)
				}
				text = jane.want(jane.do("GET", path+"?includeUninitialized=true&"+query, "", "Accept: "+accept), 200, "").body
				if !strings.Contains(text, "hidden") || strings.Contains(text, "one.example.com") == strings.Contains(accept, "protobuf") {
					t.Errorf("%s?%s as %s with the uninitialized shows %q", path, query, accept, text)
				}
			}
		}
	}
	for _, accept := range []string{"application/json", "application/yaml", protoMedia, tableMedia, onePartial} {
		for _, at := range []string{podPath + "/hidden?", podPath + "/hidden?resourceVersion=0&", podPath + "/hidden/status?", podPath + "/hidden?pretty=true&"} {
			jane.want(jane.do("GET", at+"x=y", "", "Accept: "+accept), 404, `pods "hidden" not found`)
			text := jane.want(jane.do("GET", at+"includeUninitialized=true", "", "Accept: "+accept), 200, "").body
			if !strings.Contains(text, "hidden") || strings.Contains(text, "one.example.com") == (accept == protoMedia) {
				t.Errorf("%s as %s shows %q", at, accept, text)
			}
		}
	}
}

// TestUninitializedPages goes through pages with and without the uninitialized.
func TestUninitializedPages(t *testing.T) {
	_, jane, robot := initializing(t, memstore.New())
	for i := range 10 {
		jane.begin(configPath, configMap(fmt.Sprint("c", i), ""))
		if i%2 == 0 {
			robot.want(robot.do("PATCH", fmt.Sprint(configPath, "/c", i), next(), mergePatch), 200, "")
		}
	}
	for query, want := range map[string]string{"": "c0 c2 c4 c6 c8", "includeUninitialized=true": "c0 c1 c2 c3 c4 c5 c6 c7 c8 c9"} {
		var names []string
		for token := ""; ; {
			page := into[struct {
				Metadata struct {
					Continue           string
					RemainingItemCount *int64
				}
				Items []struct{ Metadata struct{ Name string } }
			}](t, jane.do("GET", configPath+"?limit=2&"+query+"&continue="+url.QueryEscape(token), ""))
			for _, i := range page.Items {
				names = append(names, i.Metadata.Name)
			}
			left := len(strings.Fields(want)) - len(names)
			if r := page.Metadata.RemainingItemCount; left > 0 && (r == nil || *r != int64(left)) {
				t.Errorf("%q: after %v remain %v", query, names, r)
			}
			if token = page.Metadata.Continue; token == "" {
				break
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q: pages of %s", query, got)
		}
	}
}

// TestUninitializedInWatches: an object is added when all initializers have acted on
// it, in every form of a watch.
func TestUninitializedInWatches(t *testing.T) {
	for _, accept := range []string{"application/json", tableMedia, onePartial} {
		_, jane, robot := initializing(t, memstore.New())
		jane.begin(podPath, pod("before", ""))
		ordinary := jane.watch(podPath+"?watch=true", "Accept: "+accept)
		all := jane.watch(podPath+include+"&watch=true", "Accept: "+accept)
		selective := jane.watch(podPath+"?watch=true&labelSelector=app%3Dx", "Accept: "+accept)
		jane.begin(podPath, pod("p", `,"labels":{"app":"x"}`))
		jane.begin(podPath, pod("gone", ""))
		jane.want(jane.do("DELETE", podPath+"/gone?gracePeriodSeconds=0", ""), 200, "")
		robot.want(robot.do("PATCH", podPath+"/p", next("two"), mergePatch), 200, "")
		robot.want(robot.do("PATCH", podPath+"/p", next(), mergePatch), 200, "")
		for _, s := range []*stream{ordinary, selective} {
			if e := s.next(); e.Type != "ADDED" || strings.Contains(string(e.Object), "initializers") || !strings.Contains(string(e.Object), `"p"`) {
				t.Errorf("%s: first is %s %s", accept, e.Type, e.Object)
			}
		}
		for _, want := range []string{"ADDED before one two", "ADDED p one two", "ADDED gone one two", "DELETED gone one two", "MODIFIED p two", "MODIFIED p -"} {
			e := all.next()
			words := strings.SplitN(want, " ", 3)
			text := string(e.Object)
			if e.Type != words[0] || !strings.Contains(text, `"`+words[1]+`"`) || strings.Contains(text, "two.example.com") != (words[2] != "-") ||
				strings.Contains(text, "one.example.com") != strings.HasPrefix(words[2], "one") {
				t.Errorf("%s: %s %s, not %s", accept, e.Type, text, want)
			}
		}
	}
}
