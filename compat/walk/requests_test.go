package walk

import (
	"path"
	"slices"
	"strings"

	"github.com/planekit/planekit/compat/pair"
)

// place is a path of the document, with names in it.
type place struct {
	template, path string
	exists         bool
	operations     map[string]pair.Operation
	// fixture is the object of the walk that it is about, if any.
	fixture *pair.Object
}

// places fills the paths of a document with the names of objects that exist and of those that do not.
func places(operations []pair.Operation) (all []place) {
	byPath := map[string]map[string]pair.Operation{}
	var order []string
	for _, o := range operations {
		if byPath[o.Path] == nil {
			byPath[o.Path] = map[string]pair.Operation{}
			order = append(order, o.Path)
		}
		byPath[o.Path][o.Method] = o
	}
	for _, template := range order {
		full := strings.NewReplacer("{namespace}", pair.Namespace, "{path}", "x/y", "{logpath}", "x").Replace(template)
		if template == "/api/v1/namespaces/{name}" || strings.HasPrefix(template, "/api/v1/namespaces/{name}/") {
			full = strings.Replace(full, "{name}", pair.Namespace, 1)
		}
		p := place{template: template, operations: byPath[template], exists: true}
		collection, rest, named := strings.Cut(full, "/{name}")
		i := slices.IndexFunc(pair.Objects, func(o pair.Object) bool { return o.Path == strings.Replace(collection, "/v1/watch/", "/v1/", 1) })
		if i >= 0 {
			p.fixture = &pair.Objects[i]
		}
		if !named {
			p.path = full
			if template == "/api/v1/namespaces/{name}" || strings.HasPrefix(template, "/api/v1/namespaces/{name}/") {
				p.fixture = &pair.Objects[0]
			}
			all = append(all, p)
			continue
		}
		name := "walk"
		if p.fixture != nil {
			name = p.fixture.Label()
		}
		p.path = collection + "/" + name + rest
		missing := p
		missing.path, missing.exists = collection+"/missing"+rest, false
		all = append(all, p, missing)
	}
	return all
}

func (p place) watch() bool {
	return strings.Contains(p.path, "/v1/watch/") || strings.Contains(p.path, "/v2/watch/")
}

// connect reports a path that leads to another server.
func (p place) connect() bool {
	return slices.Contains([]string{"exec", "attach", "portforward", "proxy"}, path.Base(p.template)) || strings.Contains(p.template, "/proxy/")
}

// reads are the requests that change nothing.
func reads(all []place) (list []pair.Request) {
	for _, p := range all {
		o, ok := p.operations["GET"]
		if p.connect() {
			continue
		}
		if p.watch() {
			for _, accept := range accepts[:18] {
				list = append(list, pair.Request{Method: "GET", Path: p.path, Query: "timeoutSeconds=1", Accept: accept})
			}
			for _, query := range []string{"watch=false", "resourceVersion=0", "resourceVersion=x", "fieldSelector=metadata.name%3Dwalk", "labelSelector=walk", "limit=1", "allowWatchBookmarks=true"} {
				list = append(list, pair.Request{Method: "GET", Path: p.path, Query: "timeoutSeconds=1&" + query, Accept: "application/json"})
			}
			continue
		}
		list = append(list, pair.Request{Method: "HEAD", Path: p.path, Accept: "application/json"}, pair.Request{Method: "OPTIONS", Path: p.path, Accept: "application/json"},
			pair.Request{Method: "TRACE", Path: p.path}, pair.Request{Method: "FOO", Path: p.path, Accept: "application/json"})
		if !ok {
			list = append(list, pair.Request{Method: "GET", Path: p.path, Accept: "application/json"})
			continue
		}
		for i, accept := range accepts {
			if p.exists || i%4 == 0 {
				list = append(list, pair.Request{Method: "GET", Path: p.path, Accept: accept})
			}
		}
		tried := o.Parameters
		if p.exists {
			tried = append(slices.Clone(tried), "", "resourceVersion", "dryRun", "watch")
		}
		slices.Sort(tried)
		for _, name := range slices.Compact(tried) {
			for _, value := range values[name] {
				query := name + "=" + value
				if name == "" {
					query = value
				}
				if o.Action == "list" && strings.Contains(query, "limit=") && !strings.Contains(p.path, "/walk/") {
					query += "&labelSelector=walk%3Dwalk"
				}
				if strings.Contains(query, "watch=") && !strings.Contains(query, "timeoutSeconds=") {
					query += "&timeoutSeconds=1"
				}
				list = append(list, pair.Request{Method: "GET", Path: p.path, Query: query, Accept: "application/json"})
				if strings.Contains(query, "watch=true") || strings.Contains(query, "pretty") || strings.Contains(query, "limit=1") {
					for _, accept := range []string{accepts[5], accepts[7], accepts[14]} {
						list = append(list, pair.Request{Method: "GET", Path: p.path, Query: query, Accept: accept})
					}
				}
			}
		}
	}
	return list
}
