// Package openapi gives CEL variables the types that a server's OpenAPI v3 documents describe, so that a wrong
// name in an expression is found when it is compiled.
//
//	doc, err := openapi.Parse(body)
//	object, ok := doc.Kind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
//	env, err = openapi.Declare(env, openapi.Variable{Type: object, Names: []string{"object", "oldObject"}})
//
// Types are made when an expression reaches them, because schemas may contain themselves. Fields whose schema states no
// type are hidden, as in kube-apiserver. Expressions are compiled with these types and not evaluated.
package openapi

import (
	"encoding/json"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/planekit/planekit/internal/kubecel/typed"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Document holds the schemas of one document. It is safe for concurrent use.
type Document struct{ schemas map[string]*node }

// node has what is read of a schema.
type node struct {
	Ref        string           `json:"$ref"`
	AllOf      []*node          `json:"allOf"`
	Type       string           `json:"type"`
	Format     string           `json:"format"`
	Properties map[string]*node `json:"properties"`
	Items      *node            `json:"items"`
	// Additional is a schema or a bool.
	Additional  json.RawMessage           `json:"additionalProperties"`
	IntOrString bool                      `json:"x-kubernetes-int-or-string"`
	Embedded    bool                      `json:"x-kubernetes-embedded-resource"`
	Kinds       []schema.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
}

// Parse reads an OpenAPI v3 document.
func Parse(data []byte) (*Document, error) {
	var doc struct {
		Components struct {
			Schemas map[string]*node `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	return &Document{doc.Components.Schemas}, nil
}

// A Type is the type of objects of a kind.
type Type struct {
	doc  *Document
	node *node
	name string
}

// Kind returns the type of a kind, and false if the document does not describe it.
func (d *Document) Kind(kind schema.GroupVersionKind) (*Type, bool) {
	for _, n := range d.schemas {
		if n == nil {
			continue
		}
		for _, k := range n.Kinds {
			if k == kind {
				return &Type{d, n, kind.Kind + "@"}, true // no expression can spell it
			}
		}
	}
	return nil, false
}

// maxRefs bounds the references from one schema to the next, which may be a circle.
const maxRefs = 100

// quantity is the name of a schema without a type, whose values are texts to expressions.
const quantity = "io.k8s.apimachinery.pkg.api.resource.Quantity"

// resolve returns the schema that n refers to; nil if there is none.
func (d *Document) resolve(n *node) *node {
	for range maxRefs {
		switch {
		case n == nil:
			return nil
		case n.Ref != "":
			name := n.Ref[strings.LastIndexByte(n.Ref, '/')+1:]
			if name == quantity {
				return &node{Type: "string"}
			}
			n = d.schemas[name]
		case len(n.AllOf) == 1 && n.Type == "" && n.AllOf[0] != nil:
			n = n.AllOf[0]
		default:
			return n
		}
	}
	return nil
}

// A Variable has several names of one type; any type if that is nil.
type Variable struct {
	Type  *Type
	Names []string
}

// Declare returns env with variables.
func Declare(env *cel.Env, variables ...Variable) (*cel.Env, error) {
	p := &provider{Provider: env.CELTypeProvider(), objects: map[string]*object{}}
	options := []cel.EnvOption{cel.CustomTypeProvider(p)}
	for _, v := range variables {
		of := cel.DynType
		if v.Type != nil {
			if t := p.typeOf(v.Type.doc, v.Type.node, v.Type.name, true); t != nil {
				of = t
			}
		}
		for _, name := range v.Names {
			options = append(options, cel.Variable(name, of))
		}
	}
	return env.Extend(options...)
}

// object is a type with fields.
type object struct {
	doc   *Document
	node  *node
	whole bool // a whole resource
}

// provider adds the objects of documents to the types of another provider.
type provider struct {
	types.Provider
	mu      sync.Mutex
	objects map[string]*object
}

// typeOf returns the type of a schema, nil if expressions cannot see it. whole is set for a whole resource.
func (p *provider) typeOf(doc *Document, n *node, name string, whole bool) *types.Type {
	n = doc.resolve(n)
	switch {
	case n == nil:
		return nil
	case n.IntOrString || n.Format == "int-or-string":
		return cel.DynType
	}
	switch n.Type {
	case "array":
		items := doc.resolve(n.Items)
		if items == nil {
			return nil
		}
		if elem := p.typeOf(doc, items, name+".@idx", items.Embedded); elem != nil {
			return cel.ListType(elem)
		}
		return nil
	case "object":
		var values *node
		if len(n.Additional) > 0 && n.Additional[0] == '{' && json.Unmarshal(n.Additional, &values) == nil {
			values = doc.resolve(values)
			if values == nil {
				return nil
			}
			if elem := p.typeOf(doc, values, name+".@elem", values.Embedded); elem != nil {
				return cel.MapType(cel.StringType, elem)
			}
			return nil
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.objects[name] == nil {
			p.objects[name] = &object{doc, n, whole}
		}
		return cel.ObjectType(name)
	case "string":
		return textOf(n.Format)
	case "boolean":
		return cel.BoolType
	case "number":
		return cel.DoubleType
	case "integer":
		return cel.IntType
	}
	return nil
}

func textOf(format string) *types.Type {
	switch format {
	case "byte":
		return cel.BytesType
	case "duration":
		return cel.DurationType
	case "date", "date-time":
		return cel.TimestampType
	}
	return cel.StringType
}

func (p *provider) find(name string) *object {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.objects[name]
}

// FindStructType implements [types.Provider].
func (p *provider) FindStructType(name string) (*types.Type, bool) {
	if p.find(name) != nil {
		return types.NewTypeTypeWithParam(cel.ObjectType(name)), true
	}
	return p.Provider.FindStructType(name)
}

// FindStructFieldNames implements [types.Provider]. Expressions cannot make objects.
func (p *provider) FindStructFieldNames(name string) ([]string, bool) {
	if p.find(name) != nil {
		return nil, false
	}
	return p.Provider.FindStructFieldNames(name)
}

// FindStructFieldType implements [types.Provider].
func (p *provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	o := p.find(name)
	if o == nil {
		return p.Provider.FindStructFieldType(name, field)
	}
	of := o.property(field)
	if of == nil {
		return nil, false
	}
	resolved := o.doc.resolve(of)
	if resolved == nil {
		return nil, false
	}
	t := p.typeOf(o.doc, resolved, name+"."+field, resolved.Embedded)
	return &types.FieldType{Type: t}, t != nil
}

// property returns the schema of a field by its name in expressions.
func (o *object) property(field string) *node {
	if o.whole {
		if n := o.ofResource(field); n != nil {
			return n
		}
	}
	for name, n := range o.node.Properties {
		if escaped, ok := typed.Escape(name); ok && escaped == field {
			return n
		}
	}
	return nil
}

// ofResource returns the schema of a field that each resource has, if its own does not say enough.
func (o *object) ofResource(field string) *node {
	text := &node{Type: "string"}
	metadata := o.doc.resolve(o.node.Properties["metadata"])
	if metadata != nil && metadata.Properties["name"] != nil && metadata.Properties["generateName"] != nil &&
		o.node.Properties["kind"] != nil && o.node.Properties["apiVersion"] != nil {
		return nil
	}
	switch field {
	case "kind", "apiVersion":
		return text
	case "metadata":
		return &node{Type: "object", Properties: map[string]*node{"name": text, "generateName": text}}
	}
	return nil
}
