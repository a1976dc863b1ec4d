package openapi

import (
	"reflect"
	"slices"
	"strings"
)

// Connection describes a subresource behind which another server is, which no type describes.
type Connection struct {
	Name  string
	Verbs []string
	// Kind names Options, or the resource if the subresource is read like an object: log.
	Kind Kind
	// Options is a struct whose fields are the parameters of the query; nil has none.
	Options reflect.Type
	// Paths says that paths below the subresource lead to the server too.
	Paths bool
}

// anyMedia is the media type of what another server says.
const anyMedia = "*/*"

// methodsOf are the HTTP methods of verbs.
var methodsOf = map[string]string{"get": "Get", "create": "Post", "update": "Put", "patch": "Patch", "delete": "Delete"}

// addConnections adds the paths of connections below the path of an object.
func (r Resource) addConnections(paths map[string]*pathItem, object string, placed []parameter) {
	for _, c := range r.Connections {
		at := func(verb, more string) *operation { return r.connect(c, verb, more) }
		item := func(more string, parameters ...parameter) pathItem {
			return pathItem{
				Get: at("get", more), Put: at("update", more), Post: at("create", more), Patch: at("patch", more), Delete: at("delete", more),
				Parameters: slices.Concat(placed, parameters),
			}
		}
		query := queryOf(c.Options)
		add(paths, object+"/"+c.Name, item("", query...))
		if c.Paths {
			add(paths, object+"/"+c.Name+"/{path}", item("WithPath", append([]parameter{pathParameter("path")}, query...)...))
		}
	}
}

// connect returns the operation for a verb; nil if it is not served. more ends its id.
func (r Resource) connect(c Connection, verb, more string) *operation {
	if !slices.Contains(c.Verbs, verb) {
		return nil
	}
	o, media := &operation{Action: "connect", Kind: c.Kind}, anyMedia
	r.describe(o, verb, c.Name)
	if c.Kind == r.Kind {
		o.Action, media = verb, "text/plain"
	} else {
		rest := strings.TrimPrefix(o.OperationID, named[verb].id+groupWords(r.Kind.Group)+title(r.Kind.Version))
		o.OperationID = "connect" + groupWords(r.Kind.Group) + title(r.Kind.Version) + methodsOf[verb] + rest + more
		o.Description = "connect " + strings.ToUpper(methodsOf[verb]) + " requests to " + c.Name + " of " + r.Kind.Kind
	}
	o.Responses = map[string]response{"200": {Description: "OK", Content: contents([]string{media}, Schema{Type: "string"})}}
	return o
}

// queryOf returns the fields of options that a query can have, as parameters.
func queryOf(options reflect.Type) (all []parameter) {
	if options == nil {
		return nil
	}
	described := docs(options)
	for i := range options.NumField() {
		f := options.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		of := indirect(f.Type)
		if of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if kind := parameterTypes[of.Kind()]; name != "" && kind != "" {
			all = append(all, parameter{Name: name, In: "query", Description: described[name], Schema: Schema{Type: kind}})
		}
	}
	return all
}

// parameterTypes are the types of parameters by the kinds of fields.
var parameterTypes = map[reflect.Kind]string{reflect.Bool: "boolean", reflect.String: "string", reflect.Int32: "integer", reflect.Int64: "integer"}
