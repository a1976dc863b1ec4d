package kubecel

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
)

// These are the types of variables that are more than maps.
var (
	RequestType = cel.ObjectType("kubernetes.AdmissionRequest")
	UserType    = cel.ObjectType("kubernetes.UserInfo")
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
	}
}()

// provider adds objects to the types of another provider.
type provider struct{ types.Provider }

func (p *provider) FindStructType(name string) (*types.Type, bool) {
	if _, ok := objects[name]; ok {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return p.Provider.FindStructType(name)
}

func (p *provider) FindStructFieldNames(name string) ([]string, bool) {
	fields, ok := objects[name]
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
	fields, ok := objects[name]
	if !ok {
		return p.Provider.FindStructFieldType(name, field)
	}
	t, ok := fields[field]
	return &types.FieldType{Type: t}, ok
}
