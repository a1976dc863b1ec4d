package walk

import (
	"bytes"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/compat/pair"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"sigs.k8s.io/yaml"
)

// A body is what a write is tried with.
type body struct {
	name, contentType string
	data              []byte
}

const (
	jsonType  = "application/json"
	yamlType  = "application/yaml"
	protoType = "application/vnd.kubernetes.protobuf"
	cborType  = "application/cbor"
)

// encoded returns an object in a media type.
func encoded(contentType string, object map[string]any) []byte {
	var data []byte
	var err error
	switch contentType {
	case yamlType:
		data, err = yaml.Marshal(object)
	case protoType:
		data, err = toProto(object)
	case cborType:
		data, err = direct.Marshal(object)
	default:
		data, err = json.Marshal(object)
	}
	if err != nil {
		return []byte(err.Error())
	}
	return data
}

// bodies returns the bodies that a create or an update is tried with, of which the first is right.
func bodies(object map[string]any) (all []body) {
	data := encoded(jsonType, object)
	for _, contentType := range []string{jsonType, yamlType, protoType, cborType} {
		all = append(all, body{"right", contentType, encoded(contentType, object)})
	}
	for _, contentType := range []string{"", "text/plain", "application/json; charset=utf-8", "application/json;x", protoType, cborType, yamlType,
		"application/merge-patch+json", "application/x-www-form-urlencoded", "*/*", "nonsense/", "application/json,application/yaml", "APPLICATION/JSON",
		"application/apply-patch+yaml", "application/cbor-seq", "application/vnd.kubernetes.protobuf;stream=watch"} {
		all = append(all, body{"JSON", contentType, data})
	}
	all = append(all, body{"YAML", jsonType, encoded(yamlType, object)}, body{"YAML", protoType, encoded(yamlType, object)}, body{"YAML", cborType, encoded(yamlType, object)},
		body{"protobuf", jsonType, encoded(protoType, object)}, body{"protobuf", yamlType, encoded(protoType, object)}, body{"CBOR", jsonType, encoded(cborType, object)})
	for _, contentType := range []string{jsonType, yamlType, protoType, cborType} {
		for _, text := range []string{"", "{}", "null", "[]", "x", `"x"`, "1", "{", string(data[:len(data)/2]), "k8s\x00", "\xff\xfe", " ", "---\n", "{}{}"} {
			all = append(all, body{"wrong", contentType, []byte(text)})
		}
	}
	edit := func(name string, change func(o, metadata map[string]any)) {
		var o map[string]any
		if err := json.Unmarshal(data, &o); err != nil {
			panic(err)
		}
		metadata, _ := o["metadata"].(map[string]any)
		change(o, metadata)
		all = append(all, body{name, jsonType, encoded(jsonType, o)})
	}
	set := func(name, field string, value any) {
		edit(name, func(_, m map[string]any) { m[field] = value })
	}
	edit("no kind", func(o, _ map[string]any) { delete(o, "kind") })
	edit("no apiVersion", func(o, _ map[string]any) { delete(o, "apiVersion") })
	edit("neither", func(o, _ map[string]any) { delete(o, "apiVersion"); delete(o, "kind") })
	edit("other kind", func(o, _ map[string]any) { o["kind"] = "Other" })
	edit("other version", func(o, _ map[string]any) { o["apiVersion"] = "other.example.com/v1" })
	edit("version v9", func(o, _ map[string]any) { o["apiVersion"] = path.Join(path.Dir(o["apiVersion"].(string)), "v9") })
	edit("foreign", func(o, _ map[string]any) {
		o["apiVersion"], o["kind"] = "v1", map[bool]string{true: "Secret", false: "ConfigMap"}[o["kind"] == "ConfigMap"]
	})
	edit("unknown field", func(o, _ map[string]any) { o["unknown"] = 1 })
	edit("unknown field below", func(_, m map[string]any) { m["unknown"] = 1 })
	edit("wrong type", func(_, m map[string]any) { m["labels"] = "x" })
	edit("number", func(o, _ map[string]any) { o["kind"] = 1 })
	edit("no metadata", func(o, _ map[string]any) { delete(o, "metadata") })
	set("no name", "name", "")
	edit("generated name", func(_, m map[string]any) { delete(m, "name"); m["generateName"] = "walk-" })
	set("other name", "name", "walk-other")
	set("wrong name", "name", "A_b")
	set("long name", "name", strings.Repeat("a", 260))
	set("slash", "name", "a/b")
	set("other namespace", "namespace", "other")
	set("same namespace", "namespace", pair.Namespace)
	set("resourceVersion", "resourceVersion", "1")
	set("no resourceVersion", "resourceVersion", "")
	set("wrong resourceVersion", "resourceVersion", "x")
	set("uid", "uid", "5f5a0ac2-1f3c-4d3e-9a67-0d6a3a6b3a52")
	set("wrong labels", "labels", map[string]any{"a b": "c d"})
	set("wrong annotations", "annotations", map[string]any{"a b": "c d"})
	set("owner", "ownerReferences", []any{map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "x"}})
	set("owners", "ownerReferences", []any{map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x", "controller": true}, map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "y", "controller": true}})
	set("finalizers", "finalizers", []any{"x"})
	set("managed fields", "managedFields", []any{map[string]any{"manager": "x", "operation": "Other"}})
	set("times", "creationTimestamp", "2020-01-01T00:00:00Z")
	set("wrong time", "creationTimestamp", "yesterday")
	set("deleted", "deletionTimestamp", "2020-01-01T00:00:00Z")
	set("generation", "generation", 7)
	set("self link", "selfLink", "/x")
	if inner, ok := bytes.CutPrefix(data, []byte("{")); ok {
		all = append(all, body{"field twice", jsonType, append([]byte(`{"kind":"Other",`), inner...)},
			body{"more behind", jsonType, append(bytes.Clone(data), "x"...)}, body{"two", jsonType, append(bytes.Clone(data), data...)})
	}
	return all
}

// writes sends what may change an object, one request after the other.
func (w *walker) writes(p place) {
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		o, ok := p.operations[method]
		if !ok {
			for _, data := range []string{"", "{}"} {
				w.send(pair.Request{Method: method, Path: p.path, Accept: jsonType, ContentType: jsonType, Body: []byte(data), Query: "dryRun=All"})
			}
			w.send(pair.Request{Method: method, Path: p.path, Accept: "text/html", ContentType: "text/plain", Query: "dryRun=All"})
			continue
		}
		if p.connect() {
			continue
		}
		switch method {
		case "POST", "PUT":
			w.puts(p, o)
		case "PATCH":
			w.patches(p, o)
		case "DELETE":
			w.deletes(p, o)
		}
	}
}

// base returns a right object to send.
func (p place) base(o pair.Operation) map[string]any {
	if o.Method == "PUT" {
		return nil
	}
	for end, text := range pair.Questions {
		if strings.HasSuffix(p.path, end) {
			object := pair.Content(text, o.APIVersion, o.Kind, "walk")
			if text := pair.Questions[end]; !strings.Contains(text, "metadata") {
				delete(object, "metadata")
				object["metadata"] = map[string]any{}
			}
			return object
		}
	}
	if p.fixture == nil {
		return map[string]any{"apiVersion": o.APIVersion, "kind": o.Kind, "metadata": map[string]any{"name": "walk"}}
	}
	name := map[string]string{"v1.walk.example.com": "v1.walk.example.com", "nones.none.example.com": "nones.none.example.com", "192.0.2.9": "192.0.2.10"}[p.fixture.Label()]
	if name == "" {
		name = "walk-new"
	}
	return p.fixture.Content(o.APIVersion, o.Kind, name)
}

// now returns the object at a path, or the one that it is a part of, as a server has it.
func now(t *testing.T, s *pair.Side, path string) map[string]any {
	for range 2 {
		got := s.Send(t, pair.Request{Method: "GET", Path: path, Accept: jsonType})
		var object map[string]any
		if got.Code == 200 && json.Unmarshal(got.Body, &object) == nil {
			return object
		}
		path = path[:strings.LastIndex(path, "/")]
	}
	return nil
}

// sendBoth sends a request whose body is made for each of the servers.
func (w *walker) sendBoth(r pair.Request, name string, theirs, ours []byte) {
	r.About = name
	if w.skips(r) {
		return
	}
	r.Body = theirs
	want := w.theirs.Send(w.t, r)
	r.Body = ours
	w.compare(r, want, w.ours.Send(w.t, r))
}

// queries returns the queries of a write with these parameters. The first changes nothing.
func queries(parameters []string) (all []string) {
	all = []string{"dryRun=All"}
	parameters = append(slices.Clone(parameters), "", "pretty", "resourceVersion", "limit")
	slices.Sort(parameters)
	for _, name := range slices.Compact(parameters) {
		for _, value := range values[name] {
			query := name + "=" + value
			if name == "" {
				query = value
			}
			if name != "dryRun" {
				query = "dryRun=All&" + query
			}
			all = append(all, query)
		}
	}
	return all
}

// puts tries POST and PUT.
func (w *walker) puts(p place, o pair.Operation) {
	r := pair.Request{Method: o.Method, Path: p.path, Accept: jsonType, ContentType: jsonType}
	theirs := p.base(o)
	ours := theirs
	if o.Method == "PUT" {
		if theirs, ours = now(w.t, w.theirs, p.path), now(w.t, w.ours, p.path); theirs == nil || ours == nil {
			theirs = p.base(pair.Operation{Method: "POST", APIVersion: o.APIVersion, Kind: o.Kind})
			if metadata, ok := theirs["metadata"].(map[string]any); ok {
				metadata["name"] = "missing"
			}
			ours = theirs
		}
		theirs["apiVersion"], theirs["kind"], ours["apiVersion"], ours["kind"] = o.APIVersion, o.Kind, o.APIVersion, o.Kind
	}
	t, u := bodies(theirs), bodies(ours)
	if !p.exists {
		t, u = t[:8], u[:8]
	}
	for i := range t {
		r := r
		r.Query, r.ContentType = "dryRun=All", t[i].contentType
		w.sendBoth(r, t[i].name, t[i].data, u[i].data)
		if slices.Contains([]string{"unknown field", "unknown field below", "field twice"}, t[i].name) {
			for _, validation := range values["fieldValidation"] {
				r.Query = "dryRun=All&fieldValidation=" + validation
				w.sendBoth(r, t[i].name, t[i].data, u[i].data)
			}
		}
	}
	for i, query := range queries(o.Parameters) {
		if !p.exists && i%5 > 0 || o.Method == "POST" && strings.HasPrefix(query, "dryRun=") && !strings.Contains(query, "All") {
			continue
		}
		r := r
		r.Query = query
		w.sendBoth(r, "right", t[0].data, u[0].data)
	}
	for i, accept := range accepts {
		if !p.exists && i%5 > 0 {
			continue
		}
		r := r
		r.Query, r.Accept = "dryRun=All", accept
		w.sendBoth(r, "right", t[0].data, u[0].data)
		if i%4 == 0 {
			w.sendBoth(r, "wrong", []byte("{"), []byte("{"))
		}
	}
}

const (
	mergePatch     = "application/merge-patch+json"
	jsonPatch      = "application/json-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	applyPatch     = "application/apply-patch+yaml"
	applyCBOR      = "application/apply-patch+cbor"
)

// patchBodies are the patches that are tried, by their type, of which the first is right.
func patchBodies(o pair.Operation, name string) map[string][]string {
	head := `"apiVersion":"` + o.APIVersion + `","kind":"` + o.Kind + `"`
	merge := []string{`{"metadata":{"labels":{"walk":"on"}}}`, `{}`, ``, `null`, `[]`, `x`, `"x"`, `{`, `{"metadata":{"labels":"x"}}`, `{"unknown":1}`, `{"metadata":{"unknown":1}}`,
		`{"kind":"Other"}`, `{"apiVersion":"other/v1"}`, `{"metadata":{"name":"other"}}`, `{"metadata":{"namespace":"other"}}`, `{"metadata":{"uid":"x"}}`,
		`{"metadata":{"resourceVersion":"1"}}`, `{"metadata":{"resourceVersion":"x"}}`, `{"metadata":{"resourceVersion":""}}`, `{"metadata":null}`, `{"metadata":{"labels":{"a b":"c"}}}`,
		`{"metadata":{"labels":null}}`, `{"metadata":{"creationTimestamp":null}}`, `{"metadata":{"deletionTimestamp":"2020-01-01T00:00:00Z"}}`, `{"metadata":{"finalizers":["x"]}}`, `{"spec":null}`, `{"spec":1}`,
		`{"metadata":{"managedFields":[]}}`, `{"metadata":{"managedFields":[{}]}}`, `{"metadata":{"labels":{"a":"b"},"labels":{"a":"c"}}}`, `{"metadata":{"generateName":"x","generation":9}}`, `metadata: {}`}
	return map[string][]string{
		mergePatch: merge,
		strategicPatch: append(slices.Clone(merge), `{"$patch":"delete"}`, `{"$patch":"replace","metadata":{"name":"`+name+`"}}`, `{"metadata":{"$patch":"x"}}`, `{"metadata":{"labels":{"$patch":"replace","b":"c"}}}`,
			`{"metadata":{"$retainKeys":["name"]}}`, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["x"]}}`, `{"metadata":{"$setElementOrder/finalizers":["x"]}}`),
		jsonPatch: {`[{"op":"add","path":"/metadata/labels/walk","value":"on"}]`, `[]`, ``, `{}`, `null`, `x`, `[{}]`, `[{"op":"x","path":"/metadata"}]`, `[{"op":"test","path":"/metadata/name","value":"x"}]`,
			`[{"op":"remove","path":"/metadata/none"}]`, `[{"op":"remove","path":"/metadata/name"}]`, `[{"op":"replace","path":"/none/below","value":1}]`, `[{"op":"add","path":"/unknown","value":1}]`, `[{"op":"add","path":"metadata"}]`,
			`[{"op":"add","path":"/metadata/labels"}]`, `[{"op":"replace","path":"","value":{}}]`, `[{"op":"replace","path":"/kind","value":"Other"}]`, `[{"op":"move","from":"/metadata/name","path":"/metadata/x"}]`,
			`[{"op":"copy","from":"/none","path":"/metadata/x"}]`, `[{"op":"add","path":"/metadata/labels","value":"x"}]`, `[{"op":"replace","path":"/metadata/resourceVersion","value":"1"}]`, `[{"op":"replace","path":"/metadata/uid","value":"1"}]`, `[1]`},
		applyPatch: {`{` + head + `,"metadata":{"name":"` + name + `","labels":{"walk":"on"}}}`, `{` + head + `}`, `{` + head + `,"metadata":{}}`, ``, `{}`, `null`, `[]`, `x`, `{`, `{"metadata":{}}`, `{` + head + `,"metadata":{"name":"other"}}`,
			`{` + head + `,"metadata":{"namespace":"other"}}`, `{` + head + `,"metadata":{"managedFields":[{}]}}`, `{` + head + `,"metadata":{"managedFields":[]}}`, `{"apiVersion":"` + o.APIVersion + `","kind":"Other"}`, `{"apiVersion":"v9","kind":"` + o.Kind + `"}`,
			`{` + head + `,"unknown":1}`, `{` + head + `,"metadata":{"labels":"x"}}`, `{` + head + `,"metadata":{"resourceVersion":"1"}}`, `{` + head + `,"metadata":{"uid":"x"}}`, `{` + head + `,"metadata":{"labels":{"a":"b"},"labels":{"a":"c"}}}`, head[:5],
			`{` + head + `,"metadata":{"labels":{"walk":"off"}},"spec":null}`},
	}
}

// patches tries PATCH.
func (w *walker) patches(p place, o pair.Operation) {
	all := patchBodies(o, path.Base(strings.TrimSuffix(p.path, "/"+path.Base(p.template))))
	if strings.HasSuffix(p.template, "{name}") {
		all = patchBodies(o, path.Base(p.path))
	}
	right := pair.Request{Method: "PATCH", Path: p.path, Accept: jsonType, Query: "dryRun=All"}
	for _, contentType := range slices.Sorted(maps.Keys(all)) {
		r := right
		r.ContentType = contentType
		if contentType == applyPatch {
			r.Query += "&fieldManager=walk"
		}
		for i, text := range all[contentType] {
			if !p.exists && i > 4 {
				break
			}
			r := r
			r.Body = []byte(text)
			w.send(r)
			if strings.Contains(text, "unknown") {
				for _, validation := range values["fieldValidation"] {
					r := r
					r.Query += "&fieldValidation=" + validation
					w.send(r)
				}
			}
		}
		r.Body = []byte(all[contentType][0])
		for i, query := range queries(o.Parameters) {
			if !p.exists && i%7 > 0 {
				continue
			}
			r := r
			r.Query = query
			w.send(r)
			r.Query += "&force=true&fieldManager=walk"
			w.send(r)
		}
		for i, accept := range accepts {
			if !p.exists && i%7 > 0 {
				continue
			}
			r := r
			r.Accept = accept
			w.send(r)
		}
	}
	for _, contentType := range []string{"", jsonType, yamlType, protoType, cborType, applyCBOR, "text/plain", "application/merge-patch+json; charset=utf-8", "application/apply-patch+json", "*/*", "nonsense/"} {
		r := right
		r.ContentType, r.Body = contentType, []byte(all[mergePatch][0])
		w.send(r)
		r.Query += "&fieldManager=walk"
		w.send(r)
	}
	if now(w.t, w.theirs, p.path) != nil && p.exists {
		var object map[string]any
		if json.Unmarshal([]byte(all[applyPatch][0]), &object) == nil {
			r := right
			r.ContentType, r.Query, r.Body = applyCBOR, "dryRun=All&fieldManager=walk", encoded(cborType, object)
			w.send(r)
		}
	}
}

// deletions are bodies of DELETE.
var deletions = []string{``, `{"apiVersion":"v1","kind":"DeleteOptions"}`, `{"apiVersion":"meta.k8s.io/v1","kind":"DeleteOptions"}`, `{"apiVersion":"apps/v1","kind":"DeleteOptions"}`, `{"apiVersion":"v1","kind":"Pod"}`,
	`{"kind":"DeleteOptions"}`, `[]`, `x`, `{`, `{"gracePeriodSeconds":0}`, `{"gracePeriodSeconds":-1}`, `{"gracePeriodSeconds":"x"}`, `{"propagationPolicy":"Orphan"}`, `{"propagationPolicy":"x"}`,
	`{"orphanDependents":true}`, `{"orphanDependents":true,"propagationPolicy":"Orphan"}`, `{"preconditions":{"uid":"x"}}`, `{"preconditions":{"resourceVersion":"1"}}`, `{"preconditions":{}}`, `{"dryRun":["All"]}`, `{"dryRun":["x"]}`,
	`{"unknown":1}`, `{"ignoreStoreReadErrorWithClusterBreakingPotential":true}`, `{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":1,"gracePeriodSeconds":2}`}

// restore makes the object of a place again, if it has been deleted.
func (w *walker) restore(p place) {
	if p.fixture == nil || !strings.HasSuffix(p.template, "{name}") {
		return
	}
	for _, s := range []*pair.Side{w.theirs, w.ours} {
		r := pair.Request{Method: "GET", Path: p.path, Accept: jsonType}
		if s.Send(w.t, r).Code == 404 && p.exists {
			w.t.Errorf("%s has lost %s", s.Name, p.path)
		}
	}
}

// deletes tries DELETE.
func (w *walker) deletes(p place, o pair.Operation) {
	r := pair.Request{Method: "DELETE", Path: p.path, Accept: jsonType, Query: "dryRun=All"}
	if o.Action == "deletecollection" {
		r.Query += "&labelSelector=walk"
	}
	for i, text := range deletions {
		if !p.exists && i%4 > 0 {
			continue
		}
		if rest, ok := strings.CutPrefix(text, `{"`); ok && !strings.Contains(text, "dryRun") {
			text = `{"dryRun":["All"],"` + rest // a query counts for nothing beside a body
		}
		r := r
		r.ContentType, r.Body = jsonType, []byte(text)
		w.send(r)
		w.restore(p)
		r.ContentType = yamlType
		w.send(r)
		w.restore(p)
	}
	for _, contentType := range []string{"", protoType, cborType, "text/plain", "*/*", "nonsense/", "application/json; charset=utf-8"} {
		for _, text := range []string{"", `{"dryRun":["All"]}`, `{"gracePeriodSeconds":0,"dryRun":["All"]}`} {
			r := r
			r.ContentType, r.Body = contentType, []byte(text)
			w.send(r)
		}
	}
	options := map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "dryRun": []any{"All"}}
	for _, contentType := range []string{protoType, cborType} {
		r := r
		r.ContentType, r.Body = contentType, encoded(contentType, options)
		w.send(r)
	}
	for i, query := range queries(o.Parameters) {
		if !p.exists && i%5 > 0 || strings.HasPrefix(query, "dryRun=") && !strings.Contains(query, "All") && !strings.Contains(query, "=all") && !strings.Contains(query, "None") {
			continue
		}
		r := r
		r.Query = query
		if o.Action == "deletecollection" && !strings.Contains(query, "labelSelector") {
			r.Query += "&labelSelector=walk"
		}
		w.send(r)
	}
	for i, accept := range accepts {
		if !p.exists && i%5 > 0 {
			continue
		}
		r := r
		r.Accept = accept
		w.send(r)
	}
}
