package walk

import (
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// place is a path of the document, with names in it.
type place struct {
	template, path string
	exists         bool
	operations     map[string]operation
	// fixture is the object of the walk that it is about, if any.
	fixture *object
}

// places fills the paths of a document with the names of objects that exist and of those that do not.
func places(operations []operation) (all []place) {
	byPath := map[string]map[string]operation{}
	var order []string
	for _, o := range operations {
		if byPath[o.path] == nil {
			byPath[o.path] = map[string]operation{}
			order = append(order, o.path)
		}
		byPath[o.path][o.method] = o
	}
	for _, template := range order {
		full := strings.NewReplacer("{namespace}", namespace, "{path}", "x/y", "{logpath}", "x").Replace(template)
		if template == "/api/v1/namespaces/{name}" || strings.HasPrefix(template, "/api/v1/namespaces/{name}/") {
			full = strings.Replace(full, "{name}", namespace, 1)
		}
		p := place{template: template, operations: byPath[template], exists: true}
		collection, rest, named := strings.Cut(full, "/{name}")
		i := slices.IndexFunc(objects, func(o object) bool { return o.path == strings.Replace(collection, "/v1/watch/", "/v1/", 1) })
		if i >= 0 {
			p.fixture = &objects[i]
		}
		if !named {
			p.path = full
			if template == "/api/v1/namespaces/{name}" || strings.HasPrefix(template, "/api/v1/namespaces/{name}/") {
				p.fixture = &objects[0]
			}
			all = append(all, p)
			continue
		}
		name := "walk"
		if p.fixture != nil {
			name = p.fixture.label()
		}
		p.path = collection + "/" + name + rest
		missing := p
		missing.path, missing.exists = collection+"/missing"+rest, false
		all = append(all, p, missing)
	}
	return all
}

func (o object) label() string {
	if o.name != "" {
		return o.name
	}
	return "walk"
}

// content returns the object with a name, as a client would send it.
func (o object) content(apiVersion, kind, name string) map[string]any {
	return content(o.body, apiVersion, kind, name)
}

func content(body, apiVersion, kind, name string) map[string]any {
	var m map[string]any
	if err := yaml.Unmarshal([]byte(body), &m); err != nil {
		panic(err)
	}
	m["apiVersion"], m["kind"] = apiVersion, kind
	metadata, _ := m["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		m["metadata"] = metadata
	}
	metadata["name"], metadata["labels"] = name, map[string]any{"walk": "walk"}
	return m
}

func (p place) watch() bool {
	return strings.Contains(p.path, "/v1/watch/") || strings.Contains(p.path, "/v2/watch/")
}

// connect reports a path that leads to another server.
func (p place) connect() bool {
	return slices.Contains([]string{"exec", "attach", "portforward", "proxy"}, path.Base(p.template)) || strings.Contains(p.template, "/proxy/")
}

// reads are the requests that change nothing.
func reads(all []place) (list []request) {
	for _, p := range all {
		o, ok := p.operations["GET"]
		if p.connect() {
			continue
		}
		if p.watch() {
			for _, accept := range accepts[:18] {
				list = append(list, request{method: "GET", path: p.path, query: "timeoutSeconds=1", accept: accept})
			}
			for _, query := range []string{"watch=false", "resourceVersion=0", "resourceVersion=x", "fieldSelector=metadata.name%3Dwalk", "labelSelector=walk", "limit=1", "allowWatchBookmarks=true"} {
				list = append(list, request{method: "GET", path: p.path, query: "timeoutSeconds=1&" + query, accept: "application/json"})
			}
			continue
		}
		list = append(list, request{method: "HEAD", path: p.path, accept: "application/json"}, request{method: "OPTIONS", path: p.path, accept: "application/json"},
			request{method: "TRACE", path: p.path}, request{method: "FOO", path: p.path, accept: "application/json"})
		if !ok {
			list = append(list, request{method: "GET", path: p.path, accept: "application/json"})
			continue
		}
		for i, accept := range accepts {
			if p.exists || i%4 == 0 {
				list = append(list, request{method: "GET", path: p.path, accept: accept})
			}
		}
		tried := o.parameters
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
				if o.action == "list" && strings.Contains(query, "limit=") && !strings.Contains(p.path, "/walk/") {
					query += "&labelSelector=walk%3Dwalk"
				}
				if strings.Contains(query, "watch=") && !strings.Contains(query, "timeoutSeconds=") {
					query += "&timeoutSeconds=1"
				}
				list = append(list, request{method: "GET", path: p.path, query: query, accept: "application/json"})
				if strings.Contains(query, "watch=true") || strings.Contains(query, "pretty") || strings.Contains(query, "limit=1") {
					for _, accept := range []string{accepts[5], accepts[7], accepts[14]} {
						list = append(list, request{method: "GET", path: p.path, query: query, accept: accept})
					}
				}
			}
		}
	}
	return list
}
