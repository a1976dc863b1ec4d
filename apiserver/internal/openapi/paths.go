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
	Description string              `json:"description,omitempty"`
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
		{Name: "allowWatchBookmarks", In: "query", Schema: Schema{Type: "boolean"}},
		{Name: "continue", In: "query", Schema: Schema{Type: "string"}},
		{Name: "fieldSelector", In: "query", Schema: Schema{Type: "string"}},
		{Name: "labelSelector", In: "query", Schema: Schema{Type: "string"}},
		{Name: "limit", In: "query", Schema: Schema{Type: "integer"}},
		{Name: "resourceVersion", In: "query", Schema: Schema{Type: "string"}},
		{Name: "resourceVersionMatch", In: "query", Schema: Schema{Type: "string"}},
		{Name: "sendInitialEvents", In: "query", Schema: Schema{Type: "boolean"}},
		{Name: "timeoutSeconds", In: "query", Schema: Schema{Type: "integer"}},
		{Name: "watch", In: "query", Schema: Schema{Type: "boolean"}},
	}
	bodyMedia  = []string{"application/json", "application/yaml"}
	patchMedia = []string{"application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml"}
	// givenPatchMedia lists the patches of resources whose Go type does not say how lists merge.
	givenPatchMedia = []string{"application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"}
)

// addPaths adds the paths of the collection, the object and its subresources. Options is the type
// of the body of a deletion.
func (r Resource) addPaths(s schemas, paths map[string]*pathItem, options reflect.Type) {
	all := r.Path + "/" + r.Plural
	collection, placed := all, []parameter(nil)
	at := func(verb string) *operation { return r.operation(s, verb, "", r.Verbs, r.Kind, r.object(s), options) }
	if r.Namespaced {
		collection = r.Path + "/namespaces/{namespace}/" + r.Plural
		placed = []parameter{pathParameter("namespace")}
		if get := at("list"); get != nil {
			get.OperationID = strings.Replace(get.OperationID, "Namespaced", "", 1) + "ForAllNamespaces"
			paths[all] = &pathItem{Get: get}
		}
	}
	add(paths, collection, pathItem{
		Get: at("list"), Post: at("create"), Delete: at("deletecollection"), Parameters: placed,
	})
	placed = append(slices.Clone(placed), pathParameter("name"))
	add(paths, collection+"/{name}", pathItem{
		Get: at("get"), Put: at("update"), Patch: at("patch"), Delete: at("delete"), Parameters: placed,
	})
	for _, sub := range r.Subs {
		at := func(verb string) *operation {
			return r.operation(s, verb, sub.Name, sub.Verbs, sub.Kind, r.body(s, sub), options)
		}
		add(paths, collection+"/{name}/"+sub.Name, pathItem{
			Get: at("get"), Put: at("update"), Post: at("create"), Patch: at("patch"), Delete: at("delete"), Parameters: placed,
		})
	}
	r.addConnections(paths, collection+"/{name}", placed)
	r.addWatches(s, paths)
}

// add adds a path unless it has no operations.
func add(paths map[string]*pathItem, path string, item pathItem) {
	if item.Get != nil || item.Put != nil || item.Post != nil || item.Delete != nil || item.Patch != nil {
		paths[path] = &item
	}
}

// named holds the beginnings of operation ids by verb, and Kubernetes' descriptions of the
// operations on an object and on a subresource.
var named = map[string]struct{ id, object, sub string }{
	"list":             {"list", "list or watch objects of kind KIND", ""},
	"create":           {"create", "create ONE", "create SUB of ONE"},
	"get":              {"read", "read the specified KIND", "read SUB of the specified KIND"},
	"update":           {"replace", "replace the specified KIND", "replace SUB of the specified KIND"},
	"patch":            {"patch", "partially update the specified KIND", "partially update SUB of the specified KIND"},
	"delete":           {"delete", "delete ONE", "delete SUB of ONE"},
	"deletecollection": {"delete", "delete collection of KIND", ""},
	"watchlist":        {"watch", watchesList, ""},
	"watch":            {"watch", watchesObject, ""},
}

// describe gives the operation for verb on the object, or on its subresource sub, the id and the
// description that it has in Kubernetes.
func (r Resource) describe(o *operation, verb, sub string) {
	group, version, id := groupWords(r.Kind.Group), title(r.Kind.Version), named[verb].id
	o.Tags = []string{strings.ToLower(group[:1]) + group[1:] + "_" + r.Kind.Version}
	id += group + version
	if verb == "deletecollection" {
		id += "Collection"
	}
	if r.Namespaced {
		id += "Namespaced"
	}
	o.OperationID = id + r.Kind.Kind + title(sub)
	sentence := named[verb].object
	if sub != "" {
		sentence = named[verb].sub
	}
	o.Description = strings.NewReplacer("KIND", r.Kind.Kind, "SUB", sub, "ONE", withArticle(r.Kind.Kind)).Replace(sentence)
}

// withArticle returns a noun with its article as Kubernetes writes it: a Pod, an Event, Endpoints.
func withArticle(noun string) string {
	switch {
	case strings.HasSuffix(noun, "s") && !strings.HasSuffix(noun, "ss"):
		return noun
	case strings.ContainsRune("AEIOU", rune(noun[0])):
		return "an " + noun
	}
	return "a " + noun
}

// groupWords returns an API group as one word: RbacAuthorization for rbac.authorization.k8s.io.
func groupWords(group string) string {
	if group == "" {
		return "Core"
	}
	var out strings.Builder
	for word := range strings.SplitSeq(strings.TrimSuffix(group, ".k8s.io"), ".") {
		out.WriteString(title(word))
	}
	return out.String()
}

func title(word string) string {
	if word == "" {
		return ""
	}
	return strings.ToUpper(word[:1]) + word[1:]
}

// operation returns the operation for a verb; nil if the verb is not served. of is the name of the schema
// of the bodies.
func (r Resource) operation(s schemas, verb, sub string, verbs []string, kind Kind, of string, options reflect.Type) *operation {
	if !slices.Contains(verbs, verb) {
		return nil
	}
	ref := Schema{Ref: refPrefix + of}
	shown, code := ref, "200"
	o := &operation{Action: map[string]string{"create": "post", "update": "put"}[verb], Kind: kind}
	r.describe(o, verb, sub)
	if o.Action == "" {
		o.Action = verb
	}
	switch verb {
	case "create", "update":
		o.Parameters = writeParameters
		o.RequestBody = &body{contents(bodyMedia, ref)}
		if verb == "create" {
			code = "201"
		}
	case "patch":
		o.Parameters = append(slices.Clone(writeParameters), parameter{Name: "force", In: "query", Schema: Schema{Type: "boolean"},
			Description: "Force is going to \"force\" Apply requests: fields owned by other people are taken from them."})
		o.RequestBody = &body{contents(r.patches(), Schema{Type: "object"})}
	case "delete":
		o.Parameters = writeParameters[:1]
		o.RequestBody = &body{contents(bodyMedia, Schema{Ref: refPrefix + s.add(options)})}
	case "deletecollection":
		o.Parameters = append(slices.Clone(listParameters), writeParameters[0])
		o.RequestBody = &body{contents(bodyMedia, Schema{Ref: refPrefix + s.add(options)})}
		shown = r.shownList(s, ref)
	case "list":
		o.Parameters = listParameters
		shown = r.shownList(s, ref)
	}
	o.Responses = map[string]response{code: {Description: map[string]string{"200": "OK", "201": "Created"}[code], Content: contents(bodyMedia, shown)}}
	return o
}

// patches returns the media types of patches.
func (r Resource) patches() []string {
	if r.Given != nil {
		return givenPatchMedia
	}
	return patchMedia
}

// shownList returns the schema of the response to a list, or ref if there is no list.
func (r Resource) shownList(s schemas, ref Schema) Schema {
	if r.List == nil {
		return ref
	}
	if r.Given != nil {
		return Schema{Ref: refPrefix + r.listName()}
	}
	return Schema{Ref: refPrefix + s.add(r.List)}
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
