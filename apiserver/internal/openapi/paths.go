package openapi

import (
	"reflect"
	"slices"
	"strings"
)

type pathItem struct {
	Get        *operation  `json:"get,omitempty"`
	Put        *operation  `json:"put,omitempty"`
	Post       *operation  `json:"post,omitempty"`
	Delete     *operation  `json:"delete,omitempty"`
	Patch      *operation  `json:"patch,omitempty"`
	Parameters []parameter `json:"parameters,omitempty"`
}

type operation struct {
	Tags        []string            `json:"tags,omitempty"`
	OperationID string              `json:"operationId,omitempty"`
	Parameters  []parameter         `json:"parameters,omitempty"`
	RequestBody *body               `json:"requestBody,omitempty"`
	Responses   map[string]response `json:"responses"`
	Action      string              `json:"x-kubernetes-action"`
	Kind        Kind                `json:"x-kubernetes-group-version-kind"`
}

type parameter struct {
	Name        string `json:"name"`
	In          string `json:"in"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required,omitempty"`
	Schema      Schema `json:"schema"`
}

type body struct {
	Content map[string]content `json:"content"`
}

type response struct {
	Description string             `json:"description"`
	Content     map[string]content `json:"content,omitempty"`
}

type content struct {
	Schema Schema `json:"schema"`
}

var (
	writeParameters = []parameter{
		{Name: "dryRun", In: "query", Schema: Schema{Type: "string"},
			Description: "When present, indicates that modifications should not be persisted. Valid value: All."},
		{Name: "fieldManager", In: "query", Schema: Schema{Type: "string"},
			Description: "A name associated with the actor or entity that is making these changes."},
		{Name: "fieldValidation", In: "query", Schema: Schema{Type: "string"},
			Description: "How unknown or duplicate fields are treated: Ignore, Warn (the default) or Strict."},
	}
	listParameters = []parameter{
		{Name: "continue", In: "query", Schema: Schema{Type: "string"}},
		{Name: "fieldSelector", In: "query", Schema: Schema{Type: "string"}},
		{Name: "labelSelector", In: "query", Schema: Schema{Type: "string"}},
		{Name: "limit", In: "query", Schema: Schema{Type: "integer"}},
		{Name: "resourceVersion", In: "query", Schema: Schema{Type: "string"}},
		{Name: "watch", In: "query", Schema: Schema{Type: "boolean"}},
	}
	bodyMedia  = []string{"application/json", "application/yaml"}
	patchMedia = []string{"application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml"}
)

// addPaths adds the paths of the collection, the object and its subresources.
func (r Resource) addPaths(s schemas, paths map[string]*pathItem) {
	all := r.Path + "/" + r.Plural
	collection, placed := all, []parameter(nil)
	if r.Namespaced {
		collection = r.Path + "/namespaces/{namespace}/" + r.Plural
		placed = []parameter{pathParameter("namespace")}
		if get := r.operation(s, "list", r.Verbs, r.Kind, r.List); get != nil {
			paths[all] = &pathItem{Get: get}
		}
	}
	paths[collection] = &pathItem{
		Get:        r.operation(s, "list", r.Verbs, r.Kind, r.List),
		Post:       r.operation(s, "create", r.Verbs, r.Kind, r.Type),
		Delete:     r.operation(s, "deletecollection", r.Verbs, r.Kind, r.Type),
		Parameters: placed,
	}
	placed = append(slices.Clone(placed), pathParameter("name"))
	r.addObject(s, paths, collection+"/{name}", r.Verbs, r.Kind, r.Type, placed)
	for _, sub := range r.Subs {
		path := collection + "/{name}/" + sub.Name
		r.addObject(s, paths, path, sub.Verbs, sub.Kind, sub.Type, placed)
		paths[path].Post = r.operation(s, "create", sub.Verbs, sub.Kind, sub.Type)
	}
}

func (r Resource) addObject(s schemas, paths map[string]*pathItem, path string, verbs []string, kind Kind, t reflect.Type, placed []parameter) {
	paths[path] = &pathItem{
		Get:        r.operation(s, "get", verbs, kind, t),
		Put:        r.operation(s, "update", verbs, kind, t),
		Patch:      r.operation(s, "patch", verbs, kind, t),
		Delete:     r.operation(s, "delete", verbs, kind, t),
		Parameters: placed,
	}
}

// operation is nil where the verb is not served.
func (r Resource) operation(s schemas, verb string, verbs []string, kind Kind, t reflect.Type) *operation {
	if !slices.Contains(verbs, verb) {
		return nil
	}
	ref := Schema{Ref: refPrefix + s.add(t)}
	o := &operation{
		Tags:      []string{strings.ReplaceAll(strings.Trim(r.Path, "/"), "/", "_")},
		Action:    map[string]string{"create": "post", "update": "put"}[verb],
		Kind:      kind,
		Responses: map[string]response{"200": {Description: "OK", Content: contents(bodyMedia, ref)}},
	}
	if o.Action == "" {
		o.Action = verb
	}
	switch verb {
	case "create", "update":
		o.Parameters = writeParameters
		o.RequestBody = &body{contents(bodyMedia, ref)}
	case "patch":
		o.Parameters = append(slices.Clone(writeParameters), parameter{Name: "force", In: "query", Schema: Schema{Type: "boolean"},
			Description: "Force is going to \"force\" Apply requests: fields owned by other people are taken from them."})
		o.RequestBody = &body{contents(patchMedia, Schema{Type: "object"})}
	case "delete":
		o.Parameters = writeParameters[:1]
	case "list", "deletecollection":
		o.Parameters = listParameters
	}
	return o
}

func contents(media []string, schema Schema) map[string]content {
	all := map[string]content{}
	for _, m := range media {
		all[m] = content{schema}
	}
	return all
}

func pathParameter(name string) parameter {
	return parameter{Name: name, In: "path", Required: true, Schema: Schema{Type: "string"}}
}
