package flowcontrol

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/flowcontrol/objects"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/kinds"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	defaultPrecedence = 1000
	maxPrecedence     = 10_000
)

// mandatoryFairness are the objects of flow control whose specs are fixed.
var mandatoryFairness = sync.OnceValue(objects.Mandatory)

// FlowSchemas returns the resource of the kind FlowSchema.
func FlowSchemas() apiserver.Resource {
	type schema = flowcontrolv1.FlowSchema
	spec := flowcontrolv1.FlowSchemaSpec{}.SwaggerDoc()
	return apiserver.For(kinds.FlowSchemas, apiserver.Resource{
		Strategy: define.Strategy[*schema]{
			Counted:        func(s *schema) any { return &s.Spec },
			Default:        func(s *schema) { optional.SetIfEmpty(&s.Spec.MatchingPrecedence, defaultPrecedence) },
			Create:         func(s *schema) { s.Status = flowcontrolv1.FlowSchemaStatus{} },
			Update:         func(s, old *schema) { old.Status.DeepCopyInto(&s.Status) },
			Validate:       validateFlowSchema,
			ValidateUpdate: func(s, _ *schema) field.ErrorList { return validateFlowSchema(s) },
		}.Erase(),
		Columns: []apiserver.Column{
			column.Text("PriorityLevel", flowcontrolv1.PriorityLevelConfigurationReference{}.SwaggerDoc()["name"],
				func(s *schema) string { return s.Spec.PriorityLevelConfiguration.Name }),
			column.Count("MatchingPrecedence", spec["matchingPrecedence"], func(s *schema) int32 { return s.Spec.MatchingPrecedence }),
			column.Text("DistinguisherMethod", spec["distinguisherMethod"], func(s *schema) string {
				if s.Spec.DistinguisherMethod == nil {
					return column.None
				}
				return string(s.Spec.DistinguisherMethod.Type)
			}),
			column.Age[*schema](),
			column.Text("MissingPL", "references a broken or non-existent PriorityLevelConfiguration", func(s *schema) string {
				for _, c := range s.Status.Conditions {
					if c.Type == flowcontrolv1.FlowSchemaConditionDangling {
						return string(c.Status)
					}
				}
				return "?"
			}),
		},
		Subresources: []apiserver.Subresource{
			define.Status(define.Strategy[*schema]{
				Update: func(s, old *schema) {
					keepMetadata(&s.ObjectMeta, &old.ObjectMeta)
					old.Spec.DeepCopyInto(&s.Spec)
				},
				ValidateUpdate: func(s, _ *schema) field.ErrorList {
					var ps check.Problems
					checkFlowSchemaStatus(&ps, &s.Status)
					return ps.List
				},
			}, "metadata", "spec"),
		},
	})
}

func validateFlowSchema(s *flowcontrolv1.FlowSchema) field.ErrorList {
	var ps check.Problems
	p := field.NewPath("spec")
	precedence := p.Child("matchingPrecedence")
	n := s.Spec.MatchingPrecedence
	ps.Valid(n > 0, precedence, n, "must be a positive value")
	ps.Valid(n <= maxPrecedence, precedence, n, fmt.Sprintf("must not be greater than %v", maxPrecedence))
	ps.Valid(n != 1 || s.Name == flowcontrolv1.FlowSchemaNameExempt, precedence, n, "only the schema named 'exempt' may have matchingPrecedence 1")
	if m := s.Spec.DistinguisherMethod; m != nil && m.Type != flowcontrolv1.FlowDistinguisherMethodByUserType && m.Type != flowcontrolv1.FlowDistinguisherMethodByNamespaceType {
		ps.Add(field.NotSupported(p.Child("distinguisherMethod", "type"), m, []flowcontrolv1.FlowDistinguisherMethodType{
			flowcontrolv1.FlowDistinguisherMethodByNamespaceType, flowcontrolv1.FlowDistinguisherMethodByUserType,
		}))
	}
	level, path := s.Spec.PriorityLevelConfiguration.Name, p.Child("priorityLevelConfiguration", "name")
	ps.Present(level != "", path, "must reference a priority level")
	if level != "" {
		ps.Subdomain(path, level)
	}
	for i := range s.Spec.Rules {
		checkFlowRule(&ps, p.Child("rules").Index(i), &s.Spec.Rules[i])
	}
	for _, m := range mandatoryFairness().Schemas {
		if m.Name == s.Name && !equality.Semantic.DeepEqual(&s.Spec, &m.Spec) {
			ps.Add(field.Invalid(p, s.Spec, fmt.Sprintf("spec of '%s' must equal the fixed value", s.Name)))
		}
	}
	checkFlowSchemaStatus(&ps, &s.Status)
	return ps.List
}

func checkFlowSchemaStatus(ps *check.Problems, s *flowcontrolv1.FlowSchemaStatus) {
	var types []string
	for _, c := range s.Conditions {
		types = append(types, string(c.Type))
	}
	checkConditionTypes(ps, types)
}

// checkConditionTypes requires the types of status.conditions to be there and unique.
func checkConditionTypes(ps *check.Problems, types []string) {
	for i, t := range types {
		p := field.NewPath("status", "conditions").Index(i).Child("type")
		ps.Unique(slices.Index(types, t) == i, p, t)
		ps.Present(t != "", p, "")
	}
}

func checkFlowRule(ps *check.Problems, p *field.Path, r *flowcontrolv1.PolicyRulesWithSubjects) {
	ps.Present(len(r.Subjects) > 0, p.Child("subjects"), "subjects must contain at least one value")
	for i := range r.Subjects {
		checkFlowSubject(ps, p.Child("subjects").Index(i), &r.Subjects[i])
	}
	ps.Present(len(r.ResourceRules)+len(r.NonResourceRules) > 0, p, "at least one of resourceRules and nonResourceRules has to be non-empty")
	for i := range r.ResourceRules {
		checkFlowResources(ps, p.Child("resourceRules").Index(i), &r.ResourceRules[i])
	}
	for i := range r.NonResourceRules {
		at, rule := p.Child("nonResourceRules").Index(i), &r.NonResourceRules[i]
		checkFlowVerbs(ps, at.Child("verbs"), rule.Verbs)
		paths := at.Child("nonResourceURLs")
		if !checkFlowList(ps, paths, rule.NonResourceURLs, "nonResourceURLs must contain at least one value", "other non-resource URLs") {
			continue
		}
		for i, path := range rule.NonResourceURLs {
			if message := wrongPath(path); message != "" {
				ps.Add(field.Invalid(paths.Index(i), path, message))
			}
		}
	}
}

func checkFlowSubject(ps *check.Problems, p *field.Path, s *flowcontrolv1.Subject) {
	subjects := []struct {
		kind  flowcontrolv1.SubjectKind
		field string
		given bool
	}{
		{flowcontrolv1.SubjectKindServiceAccount, "serviceAccount", s.ServiceAccount != nil},
		{flowcontrolv1.SubjectKindUser, "user", s.User != nil},
		{flowcontrolv1.SubjectKindGroup, "group", s.Group != nil},
	}
	for _, one := range subjects {
		if one.kind == s.Kind {
			ps.Present(one.given, p.Child(one.field), fmt.Sprintf("%s is required when subject kind is '%s'", one.field, one.kind))
		}
	}
	switch s.Kind {
	case flowcontrolv1.SubjectKindServiceAccount:
		if s.ServiceAccount != nil {
			checkFlowAccount(ps, p.Child("serviceAccount"), s.ServiceAccount)
		}
	case flowcontrolv1.SubjectKindUser:
		if s.User != nil {
			ps.Required(p.Child("user", "name"), s.User.Name)
		}
	case flowcontrolv1.SubjectKindGroup:
		if s.Group != nil {
			ps.Required(p.Child("group", "name"), s.Group.Name)
		}
	default:
		check.OneOf(ps, p.Child("kind"), s.Kind, flowcontrolv1.SubjectKindGroup, flowcontrolv1.SubjectKindServiceAccount, flowcontrolv1.SubjectKindUser)
		return
	}
	for _, other := range subjects {
		ps.Allowed(other.kind == s.Kind || !other.given, p.Child(other.field),
			fmt.Sprintf("%s is forbidden when subject kind is not '%s'", other.field, other.kind))
	}
}

func checkFlowAccount(ps *check.Problems, p *field.Path, a *flowcontrolv1.ServiceAccountSubject) {
	if ps.Required(p.Child("name"), a.Name) && a.Name != flowcontrolv1.NameAll {
		ps.Each(p.Child("name"), a.Name, apivalidation.ValidateServiceAccountName(a.Name, false))
	}
	ps.Present(a.Namespace != "", p.Child("namespace"), "must specify namespace for service account")
	if a.Namespace != "" {
		ps.Each(p.Child("namespace"), a.Namespace, apivalidation.ValidateNamespaceName(a.Namespace, false))
	}
}

func checkFlowResources(ps *check.Problems, p *field.Path, r *flowcontrolv1.ResourcePolicyRule) {
	checkFlowVerbs(ps, p.Child("verbs"), r.Verbs)
	checkFlowList(ps, p.Child("apiGroups"), r.APIGroups, "resource rules must supply at least one api group", "other api groups")
	checkFlowList(ps, p.Child("resources"), r.Resources, "resource rules must supply at least one resource", "other resources")
	if len(r.Namespaces) == 0 && r.ClusterScope {
		return
	}
	namespaces := p.Child("namespaces")
	if checkFlowList(ps, namespaces, r.Namespaces, "resource rules that are not cluster scoped must supply at least one namespace", "other namespaces") {
		for i, namespace := range r.Namespaces {
			for _, m := range apivalidation.ValidateNamespaceName(namespace, false) {
				ps.Add(field.Invalid(namespaces.Index(i), namespace, "each member of this list must be '*' or a DNS-1123 label; "+m))
			}
		}
	}
}

// flowVerbs lists the verbs that a rule may name, in the order in which messages show them.
var flowVerbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"}

func checkFlowVerbs(ps *check.Problems, p *field.Path, verbs []string) {
	if !checkFlowList(ps, p, verbs, "verbs must contain at least one value", "other verbs") {
		return
	}
	if slices.ContainsFunc(verbs, func(v string) bool { return !slices.Contains(flowVerbs, v) }) {
		ps.Add(field.NotSupported(p, verbs, flowVerbs))
	}
}

// checkFlowList requires list to have a value, and * to be the only one. It reports whether the
// caller must check each value.
func checkFlowList(ps *check.Problems, p *field.Path, list []string, missing, others string) bool {
	ps.Present(len(list) > 0, p, missing)
	all := slices.Contains(list, "*")
	ps.Valid(!all || len(list) == 1, p, list, "if '*' is present, must not specify "+others)
	return len(list) > 0 && !all
}

// wrongPath returns what is wrong with the path of a non-resource rule.
func wrongPath(path string) string {
	switch stars := strings.Count(path, "*"); {
	case path == "":
		return "must not be empty"
	case !strings.HasPrefix(path, "/"):
		return "must start with slash"
	case strings.Contains(path, " "):
		return "must not contain white-space"
	case strings.Contains(path, "//"):
		return "must not contain double slash"
	case stars > 1 || stars == 1 && !strings.HasSuffix(path, "/*"):
		return "wildcard can only do suffix matching"
	}
	return ""
}

// keepMetadata undoes a change of metadata, but for what the server itself keeps there.
func keepMetadata(now, old *metav1.ObjectMeta) {
	managed, version := now.ManagedFields, now.ResourceVersion
	old.DeepCopyInto(now)
	now.ManagedFields, now.ResourceVersion = managed, version
}
