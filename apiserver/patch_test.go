package apiserver_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPatch(t *testing.T) {
	a := start(t)
	a.create(podPath, pod("p", ""))
	old := a.create(configPath, configMap("web", `,"data":{"a":"1","b":"2"}`))
	revision := into[corev1.ConfigMap](t, old).ResourceVersion
	for _, c := range []struct {
		name, path, patch, header string
		code                      int
		text                      string
	}{
		{"merge", configPath + "/web", `{"data":{"a":null,"c":"3"}}`, mergePatch, 200, `"data":{"b":"2","c":"3"}`},
		{"json", configPath + "/web", `[{"op":"add","path":"/data/d","value":"4"}]`, jsonPatch, 200, `"d":"4"`},
		{"strategic adds to a list", podPath + "/p", `{"spec":{"containers":[{"name":"e","image":"envoy"}]}}`, strategicPatch, 200, `"image":"nginx"`},
		{"strategic merges in a list", podPath + "/p", `{"spec":{"containers":[{"name":"c","image":"nginx:2"}]}}`, strategicPatch, 200, `"image":"nginx:2"`},
		{"merge replaces a list", podPath + "/p", `{"spec":{"containers":[{"name":"c","image":"nginx:3"}]}}`, mergePatch, 200, `"containers":[{"name":"c","image":"nginx:3"`},
		{"stale", configPath + "/web", `{"metadata":{"resourceVersion":"` + revision + `"}}`, mergePatch, 409, modified},
		{"other uid", configPath + "/web", `{"metadata":{"uid":"x"}}`, mergePatch, 422, `metadata.uid: Invalid value: "x": field is immutable`},
		{"other name", configPath + "/web", `{"metadata":{"name":"x"}}`, mergePatch, 400, "does not match the name"},
		{"other kind", configPath + "/web", `{"kind":"Pod"}`, mergePatch, 422, "cannot be handled as a ConfigMap"},
		{"missing path", configPath + "/web", `[{"op":"remove","path":"/data/none"}]`, jsonPatch, 422, ""},
		{"failed test", configPath + "/web", `[{"op":"test","path":"/data/b","value":"9"}]`, jsonPatch, 422, ""},
		{"not a patch", configPath + "/web", `{"a":1}`, jsonPatch, 400, "error decoding patch"},
		{"too many operations", configPath + "/web", `[` + strings.Repeat(`{"op":"test","path":"/data/b","value":"2"},`, 10000) + `{"op":"test","path":"/data/b","value":"2"}]`, jsonPatch, 413, "The allowed maximum operations in a JSON patch is 10000, got 10001"},
		{"copies that double", configPath + "/web", doublingCopies(40), jsonPatch, 413, "copies too much"},
		{"merge of a list", configPath + "/web", `[]`, mergePatch, 400, "must be a JSON object"},
		{"merge of null", configPath + "/web", `null`, mergePatch, 400, "must be a JSON object"},
		{"merge truncated", configPath + "/web", `{"data":`, mergePatch, 400, ""},
		{"strategic truncated", podPath + "/p", `{"spec":`, strategicPatch, 400, ""},
		{"wrong type", configPath + "/web", `{"data":[1]}`, mergePatch, 422, "patch: Invalid value"},
		{"invalid UTF-8", configPath + "/web", "{\"data\":{\"a\":\"\xff\"}}", mergePatch, 400, "UTF-8"},
		{"unknown field", configPath + "/web?fieldValidation=Strict", `{"dato":1}`, mergePatch, 422, `strict decoding error: unknown field "dato"`},
		{"merge, field twice", configPath + "/web?fieldValidation=Strict", `{"data":{"a":"1","a":"2"}}`, mergePatch, 400, `duplicate field "data.a"`},
		{"strategic, field twice", configPath + "/web?fieldValidation=Strict", `{"data":{"a":"1","a":"2"}}`, strategicPatch, 400, `duplicate field "data.a"`},
		{"JSON, field twice", configPath + "/web?fieldValidation=Strict", `[{"op":"test","path":"/x","path":"/kind","value":"ConfigMap"}]`, jsonPatch, 400, `duplicate field "[0].path"`},
		{"other type", configPath + "/web", `{}`, "Content-Type: application/json", 415, "415: Unsupported Media Type"},
		{"absent", configPath + "/none", `{}`, mergePatch, 404, "not found"},
		{"collection", configPath, `{}`, mergePatch, 405, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &api{t, a.client, a.base}
			a.want(a.do("PATCH", c.path, c.patch, c.header), c.code, c.text)
		})
	}
	a.want(a.do("PATCH", configPath+"/web?dryRun=All", `{"data":{"z":"1"}}`, mergePatch), 200, `"z":"1"`)
	if got := a.do("GET", configPath+"/web", ""); strings.Contains(got.body, `"z"`) {
		t.Error("dry run was stored")
	}
}

func TestPatchWarnsOnce(t *testing.T) {
	a := start(t)
	a.create(configPath, configMap("web", ""))
	got := a.want(a.do("PATCH", configPath+"/web", `{"dato":1}`, mergePatch), 200, "")
	if warnings := got.header.Values("Warning"); len(warnings) != 1 || !strings.Contains(warnings[0], "dato") {
		t.Errorf("warnings: %q", warnings)
	}
}

func TestPatchWarnsOfFieldsTwice(t *testing.T) {
	a := start(t)
	a.create(configPath, configMap("web", ""))
	const twice = `{"data":{"a":"1","a":"2"}}`
	for query, want := range map[string]int{"": 1, "?fieldValidation=Warn": 1, "?fieldValidation=Ignore": 0} {
		got := a.want(a.do("PATCH", configPath+"/web"+query, twice, mergePatch), 200, "")
		if warnings := got.header.Values("Warning"); len(warnings) != want || want > 0 && !strings.Contains(warnings[0], `duplicate field \"data.a\"`) {
			t.Errorf("%q: warnings %q", query, warnings)
		}
	}
}

func doublingCopies(n int) string {
	var operations []string
	for i := range n {
		operations = append(operations, fmt.Sprintf(`{"op":"copy","from":"/data","path":"/data/x%d"}`, i))
	}
	return "[" + strings.Join(operations, ",") + "]"
}
