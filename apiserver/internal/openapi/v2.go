package openapi

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

const refPrefixV2 = "#/definitions/"

// BuildV2 returns the JSON of one OpenAPI v2 document of all resources. Options is the type of the
// body of a deletion.
func BuildV2(title, version string, resources []Resource, options reflect.Type) ([]byte, error) {
	d := documentV2{
		Swagger: "2.0",
		Info:    info{Title: title, Version: version},
		Paths:   map[string]*pathItemV2{},
	}
	s, paths := schemas{}, map[string]*pathItem{}
	for _, r := range resources {
		r.addSchemas(s)
		r.addPaths(s, paths, options)
	}
	d.Definitions = make(schemas, len(s))
	for name, schema := range s {
		d.Definitions[name] = schema.v2()
	}
	for path, item := range paths {
		d.Paths[path] = item.v2()
	}
	return json.Marshal(d)
}

type documentV2 struct {
	Swagger     string                 `json:"swagger"`
	Info        info                   `json:"info"`
	Paths       map[string]*pathItemV2 `json:"paths"`
	Definitions schemas                `json:"definitions"`
}

type pathItemV2 struct {
	Get        *operationV2  `json:"get,omitempty"`
	Put        *operationV2  `json:"put,omitempty"`
	Post       *operationV2  `json:"post,omitempty"`
	Delete     *operationV2  `json:"delete,omitempty"`
	Patch      *operationV2  `json:"patch,omitempty"`
	Parameters []parameterV2 `json:"parameters,omitempty"`
}

type operationV2 struct {
	Tags        []string              `json:"tags,omitempty"`
	Description string                `json:"description,omitempty"`
	OperationID string                `json:"operationId,omitempty"`
	Consumes    []string              `json:"consumes,omitempty"`
	Produces    []string              `json:"produces,omitempty"`
	Parameters  []parameterV2         `json:"parameters,omitempty"`
	Responses   map[string]responseV2 `json:"responses"`
	Action      string                `json:"x-kubernetes-action"`
	Kind        Kind                  `json:"x-kubernetes-group-version-kind"`
}

type parameterV2 struct {
	Name        string  `json:"name"`
	In          string  `json:"in"`
	Description string  `json:"description,omitempty"`
	Required    bool    `json:"required,omitempty"`
	Type        string  `json:"type,omitempty"`
	UniqueItems bool    `json:"uniqueItems,omitempty"`
	Schema      *Schema `json:"schema,omitempty"`
}

type responseV2 struct {
	Description string  `json:"description"`
	Schema      *Schema `json:"schema,omitempty"`
}

// v2 converts a schema to OpenAPI v2, which has no oneOf, writes references in another form and
// reads what is beside one. Kubernetes omits defaults in it.
func (s *Schema) v2() *Schema {
	if s == nil {
		return nil
	}
	out := *s
	out.Default = nil
	out.given = s.givenV2
	if len(out.AllOf) == 1 && out.AllOf[0].Ref != "" {
		out.Ref, out.AllOf = out.AllOf[0].Ref, nil
	}
	if name, ok := strings.CutPrefix(out.Ref, refPrefix); ok {
		out.Ref = refPrefixV2 + name
	}
	if len(out.OneOf) > 0 {
		out.Type, out.OneOf = "string", nil
	}
	out.Items = out.Items.v2()
	out.AdditionalProperties = out.AdditionalProperties.v2()
	if s.Properties != nil {
		out.Properties = make(map[string]*Schema, len(s.Properties))
		for name, p := range s.Properties {
			out.Properties[name] = p.v2()
		}
	}
	return &out
}

func (p *pathItem) v2() *pathItemV2 {
	return &pathItemV2{
		Get: p.Get.v2(), Put: p.Put.v2(), Post: p.Post.v2(), Delete: p.Delete.v2(), Patch: p.Patch.v2(),
		Parameters: parametersV2(p.Parameters),
	}
}

func (o *operation) v2() *operationV2 {
	if o == nil {
		return nil
	}
	out := &operationV2{
		Tags: o.Tags, Description: o.Description, OperationID: o.OperationID, Produces: bodyMedia, Action: o.Action, Kind: o.Kind,
		Parameters: parametersV2(o.Parameters), Responses: map[string]responseV2{},
	}
	for code, r := range o.Responses {
		shown := responseV2{Description: r.Description}
		for media, c := range r.Content {
			shown.Schema = c.Schema.v2()
			if !slices.Contains(bodyMedia, media) {
				out.Produces = []string{media} // of a connection, alone
			}
		}
		out.Responses[code] = shown
	}
	if o.RequestBody != nil {
		var schema *Schema
		for _, c := range o.RequestBody.Content {
			schema = c.Schema.v2()
		}
		out.Consumes = bodyMedia
		if o.Action == "patch" {
			out.Consumes = slices.DeleteFunc(slices.Clone(patchMedia), func(media string) bool {
				_, ok := o.RequestBody.Content[media]
				return !ok
			})
		}
		out.Parameters = append([]parameterV2{{Name: "body", In: "body", Required: !strings.HasPrefix(o.Action, "delete"), Schema: schema}}, out.Parameters...)
	}
	return out
}

func parametersV2(all []parameter) []parameterV2 {
	var out []parameterV2
	for _, p := range all {
		out = append(out, parameterV2{Name: p.Name, In: p.In, Description: p.Description, Required: p.Required, Type: p.Schema.Type, UniqueItems: true})
	}
	return out
}
