package kubecel

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// These are the types of variables that are more than maps.
var (
	RequestType = cel.ObjectType("kubernetes.AdmissionRequest")
	UserType    = cel.ObjectType("kubernetes.UserInfo")
	// NamespaceType describes a namespace as policies see it.
	NamespaceType = cel.ObjectType("kubernetes.Namespace")
)

// These are the types of Kubernetes' authorization library. They have no fields.
var (
	AuthorizerType    = cel.ObjectType("kubernetes.authorization.Authorizer")
	PathCheckType     = cel.ObjectType("kubernetes.authorization.PathCheck")
	GroupCheckType    = cel.ObjectType("kubernetes.authorization.GroupCheck")
	ResourceCheckType = cel.ObjectType("kubernetes.authorization.ResourceCheck")
	DecisionType      = cel.ObjectType("kubernetes.authorization.Decision")
)

// objects holds the fields of these types, so that a wrong name is found when an expression is
// compiled. Their values are maps.
var objects = func() map[string]map[string]*types.Type {
	kind, resource := cel.ObjectType("kubernetes.GroupVersionKind"), cel.ObjectType("kubernetes.GroupVersionResource")
	return map[string]map[string]*types.Type{
		kind.TypeName():     {"group": cel.StringType, "version": cel.StringType, "kind": cel.StringType},
		resource.TypeName(): {"group": cel.StringType, "version": cel.StringType, "resource": cel.StringType},
		UserType.TypeName(): {
			"username": cel.StringType, "uid": cel.StringType, "groups": cel.ListType(cel.StringType),
			"extra": cel.MapType(cel.StringType, cel.ListType(cel.StringType)),
		},
		RequestType.TypeName(): {
			"kind": kind, "resource": resource, "subResource": cel.StringType,
			"requestKind": kind, "requestResource": resource, "requestSubResource": cel.StringType,
			"name": cel.StringType, "namespace": cel.StringType, "operation": cel.StringType,
			"userInfo": UserType, "dryRun": cel.BoolType, "options": cel.DynType,
		},
		NamespaceType.TypeName(): {
			"metadata": cel.ObjectType("kubernetes.NamespaceMetadata"), "spec": cel.ObjectType("kubernetes.NamespaceSpec"),
			"status": cel.ObjectType("kubernetes.NamespaceStatus"),
		},
		"kubernetes.NamespaceMetadata": {
			"name": cel.StringType, "generateName": cel.StringType, "namespace": cel.StringType,
			"labels": cel.MapType(cel.StringType, cel.StringType), "annotations": cel.MapType(cel.StringType, cel.StringType),
			"UID": cel.StringType, "creationTimestamp": cel.TimestampType, "deletionGracePeriodSeconds": cel.IntType,
			"deletionTimestamp": cel.TimestampType, "generation": cel.IntType, "resourceVersion": cel.StringType,
			"finalizers": cel.ListType(cel.StringType),
		},
		"kubernetes.NamespaceSpec": {"finalizers": cel.ListType(cel.StringType)},
		"kubernetes.NamespaceStatus": {
			"conditions": cel.ListType(cel.ObjectType("kubernetes.NamespaceCondition")), "phase": cel.StringType,
		},
		"kubernetes.NamespaceCondition": {
			"status": cel.StringType, "type": cel.StringType, "lastTransitionTime": cel.TimestampType,
			"message": cel.StringType, "reason": cel.StringType,
		},
	}
}()

// DeclareObject returns env with a variable for an object. The caller may add fields between two
// compilations.
func DeclareObject(env *cel.Env, variable, typeName string, fields map[string]*cel.Type) (*cel.Env, error) {
	types := &provider{env.CELTypeProvider(), map[string]map[string]*cel.Type{typeName: fields}}
	return env.Extend(cel.CustomTypeProvider(types), cel.Variable(variable, cel.ObjectType(typeName)))
}

// provider adds objects to the types of another provider.
type provider struct {
	types.Provider
	objects map[string]map[string]*types.Type
}

func (p *provider) FindStructType(name string) (*types.Type, bool) {
	if _, ok := p.objects[name]; ok {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return p.Provider.FindStructType(name)
}

func (p *provider) FindStructFieldNames(name string) ([]string, bool) {
	fields, ok := p.objects[name]
	if !ok {
		return p.Provider.FindStructFieldNames(name)
	}
	names := make([]string, 0, len(fields))
	for field := range fields {
		names = append(names, field)
	}
	return names, true
}

func (p *provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	fields, ok := p.objects[name]
	if !ok {
		return p.Provider.FindStructFieldType(name, field)
	}
	t, ok := fields[field]
	return &types.FieldType{Type: t}, ok
}

// Object returns v as maps and slices, with kind as its type if v does not contain one; nil for nil.
func Object(v any, kind schema.GroupVersionKind) (any, error) {
	if v == nil {
		return nil, nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(v)
	if err != nil {
		return nil, err
	}
	if fields["kind"] == nil {
		fields["apiVersion"], fields["kind"] = kind.ToAPIVersionAndKind()
	}
	return fields, nil
}
