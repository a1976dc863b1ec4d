package matchcel

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
)

// newEnv is the environment that kube-apiserver 1.36 gives match conditions.
func newEnv() (*cel.Env, error) {
	base, err := cel.NewEnv(
		cel.HomogeneousAggregateLiterals(),
		cel.EagerlyValidateDeclarations(true),
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(),
		cel.ASTValidators(
			cel.ValidateDurationLiterals(),
			cel.ValidateTimestampLiterals(),
			cel.ValidateRegexLiterals(),
			cel.ValidateHomogeneousAggregateLiterals(),
		),
		ext.Strings(ext.StringsVersion(2)),
		ext.Sets(),
		ext.TwoVarComprehensions(),
		ext.Lists(ext.ListsVersion(3)),
	)
	if err != nil {
		return nil, err
	}
	options := []cel.EnvOption{
		cel.CustomTypeProvider(&provider{base.CELTypeProvider()}),
		cel.Variable("object", cel.DynType),
		cel.Variable("oldObject", cel.DynType),
		cel.Variable("request", requestType),
		cel.Variable("authorizer", authorizerType),
		cel.Variable("authorizer.requestResource", resourceCheckType),
	}
	options = append(options, authorization()...)
	for _, more := range [][]cel.EnvOption{library(), urls(), addresses(), quantities(), formatting(), versions()} {
		options = append(options, more...)
	}
	return base.Extend(options...)
}

var requestType = cel.ObjectType("kubernetes.AdmissionRequest")

// objects are the fields of the types that are more than maps, so that a wrong
// name is found when an expression is compiled. Their values are maps.
var objects = func() map[string]map[string]*types.Type {
	kind, resource := cel.ObjectType("kubernetes.GroupVersionKind"), cel.ObjectType("kubernetes.GroupVersionResource")
	who := cel.ObjectType("kubernetes.UserInfo")
	return map[string]map[string]*types.Type{
		kind.TypeName():     {"group": cel.StringType, "version": cel.StringType, "kind": cel.StringType},
		resource.TypeName(): {"group": cel.StringType, "version": cel.StringType, "resource": cel.StringType},
		who.TypeName(): {
			"username": cel.StringType, "uid": cel.StringType, "groups": cel.ListType(cel.StringType),
			"extra": cel.MapType(cel.StringType, cel.ListType(cel.StringType)),
		},
		requestType.TypeName(): {
			"kind": kind, "resource": resource, "subResource": cel.StringType,
			"requestKind": kind, "requestResource": resource, "requestSubResource": cel.StringType,
			"name": cel.StringType, "namespace": cel.StringType, "operation": cel.StringType,
			"userInfo": who, "dryRun": cel.BoolType, "options": cel.DynType,
		},
	}
}()

// provider adds objects to the types of another.
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
