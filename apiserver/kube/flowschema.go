package kube

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/flowcontrol/objects"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	defaultPrecedence = 1000
	maxPrecedence     = 10_000
)

// mandatoryFairness are the objects of flow control whose specs are fixed.
var mandatoryFairness = sync.OnceValue(objects.Mandatory)

func flowSchemas() apiserver.Resource {
	type schema = flowcontrolv1.FlowSchema
	spec := flowcontrolv1.FlowSchemaSpec{}.SwaggerDoc()
	return apiserver.Resource{
		Group:   flowcontrolv1.GroupName,
		Version: "v1",
		Kind:    "FlowSchema",
		Plural:  "flowschemas",
		New:     func() runtime.Object { return &schema{} },
		NewList: func() runtime.Object { return &flowcontrolv1.FlowSchemaList{} },
		Strategy: strategy[*schema]{
			complete: func(s *schema) { setIfEmpty(&s.Spec.MatchingPrecedence, defaultPrecedence) },
			create: func(s *schema) {
				s.Status = flowcontrolv1.FlowSchemaStatus{}
				s.Generation = 1
			},
			update: func(s, old *schema) {
				old.Status.DeepCopyInto(&s.Status)
				s.Generation = nextGeneration(old.Generation, differ(&s.Spec, &old.Spec))
			},
			validate:       validateFlowSchema,
			validateUpdate: func(s, _ *schema) field.ErrorList { return validateFlowSchema(s) },
		}.erase(),
		Columns: []apiserver.Column{
			text("PriorityLevel", flowcontrolv1.PriorityLevelConfigurationReference{}.SwaggerDoc()["name"],
				func(s *schema) string { return s.Spec.PriorityLevelConfiguration.Name }),
			countColumn("MatchingPrecedence", spec["matchingPrecedence"], func(s *schema) int32 { return s.Spec.MatchingPrecedence }),
			text("DistinguisherMethod", spec["distinguisherMethod"], func(s *schema) string {
				if s.Spec.DistinguisherMethod == nil {
					return none
				}
				return string(s.Spec.DistinguisherMethod.Type)
			}),
			age[*schema](),
			text("MissingPL", "references a broken or non-existent PriorityLevelConfiguration", func(s *schema) string {
				for _, c := range s.Status.Conditions {
					if c.Type == flowcontrolv1.FlowSchemaConditionDangling {
						return string(c.Status)
					}
				}
				return "?"
			}),
		},
		Subresources: []apiserver.Subresource{
			status(strategy[*schema]{
				update: func(s, old *schema) {
					metav1.ResetObjectMetaForStatus(&s.ObjectMeta, &old.ObjectMeta)
					old.Spec.DeepCopyInto(&s.Spec)
				},
				validateUpdate: func(s, _ *schema) field.ErrorList {
					var ps problems
					checkFlowSchemaStatus(&ps, &s.Status)
					return ps.list
				},
			}, "metadata", "spec"),
		},
	}
}

func validateFlowSchema(s *flowcontrolv1.FlowSchema) field.ErrorList {
	var ps problems
	p := field.NewPath("spec")
	precedence := p.Child("matchingPrecedence")
	n := s.Spec.MatchingPrecedence
	ps.valid(n > 0, precedence, n, "must be a positive value")
	ps.valid(n <= maxPrecedence, precedence, n, fmt.Sprintf("must not be greater than %v", maxPrecedence))
	ps.valid(n != 1 || s.Name == flowcontrolv1.FlowSchemaNameExempt, precedence, n, "only the schema named 'exempt' may have matchingPrecedence 1")
	if m := s.Spec.DistinguisherMethod; m != nil && m.Type != flowcontrolv1.FlowDistinguisherMethodByUserType && m.Type != flowcontrolv1.FlowDistinguisherMethodByNamespaceType {
		ps.add(field.NotSupported(p.Child("distinguisherMethod", "type"), m, []flowcontrolv1.FlowDistinguisherMethodType{
			flowcontrolv1.FlowDistinguisherMethodByNamespaceType, flowcontrolv1.FlowDistinguisherMethodByUserType,
		}))
	}
	level, path := s.Spec.PriorityLevelConfiguration.Name, p.Child("priorityLevelConfiguration", "name")
	ps.present(level != "", path, "must reference a priority level")
	if level != "" {
		ps.subdomain(path, level)
	}
	for i := range s.Spec.Rules {
		checkFlowRule(&ps, p.Child("rules").Index(i), &s.Spec.Rules[i])
	}
	for _, m := range mandatoryFairness().Schemas {
		if m.Name == s.Name && !equality.Semantic.DeepEqual(&s.Spec, &m.Spec) {
			ps.add(field.Invalid(p, s.Spec, fmt.Sprintf("spec of '%s' must equal the fixed value", s.Name)))
		}
	}
	checkFlowSchemaStatus(&ps, &s.Status)
	return ps.list
}

func checkFlowSchemaStatus(ps *problems, s *flowcontrolv1.FlowSchemaStatus) {
	var types []string
	for _, c := range s.Conditions {
		types = append(types, string(c.Type))
	}
	checkConditionTypes(ps, types)
}

// checkConditionTypes requires the types of status.conditions to be there and unique.
func checkConditionTypes(ps *problems, types []string) {
	for i, t := range types {
		p := field.NewPath("status", "conditions").Index(i).Child("type")
		ps.unique(slices.Index(types, t) == i, p, t)
		ps.present(t != "", p, "")
	}
}

func checkFlowRule(ps *problems, p *field.Path, r *flowcontrolv1.PolicyRulesWithSubjects) {
	ps.present(len(r.Subjects) > 0, p.Child("subjects"), "subjects must contain at least one value")
	for i := range r.Subjects {
		checkFlowSubject(ps, p.Child("subjects").Index(i), &r.Subjects[i])
	}
	ps.present(len(r.ResourceRules)+len(r.NonResourceRules) > 0, p, "at least one of resourceRules and nonResourceRules has to be non-empty")
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
				ps.add(field.Invalid(paths.Index(i), path, message))
			}
		}
	}
}

func checkFlowSubject(ps *problems, p *field.Path, s *flowcontrolv1.Subject) {
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
			ps.present(one.given, p.Child(one.field), fmt.Sprintf("%s is required when subject kind is '%s'", one.field, one.kind))
		}
	}
	switch s.Kind {
	case flowcontrolv1.SubjectKindServiceAccount:
		if s.ServiceAccount != nil {
			checkFlowAccount(ps, p.Child("serviceAccount"), s.ServiceAccount)
		}
	case flowcontrolv1.SubjectKindUser:
		if s.User != nil {
			ps.required(p.Child("user", "name"), s.User.Name)
		}
	case flowcontrolv1.SubjectKindGroup:
		if s.Group != nil {
			ps.required(p.Child("group", "name"), s.Group.Name)
		}
	default:
		oneOf(ps, p.Child("kind"), s.Kind, flowcontrolv1.SubjectKindGroup, flowcontrolv1.SubjectKindServiceAccount, flowcontrolv1.SubjectKindUser)
		return
	}
	for _, other := range subjects {
		ps.allowed(other.kind == s.Kind || !other.given, p.Child(other.field),
			fmt.Sprintf("%s is forbidden when subject kind is not '%s'", other.field, other.kind))
	}
}

func checkFlowAccount(ps *problems, p *field.Path, a *flowcontrolv1.ServiceAccountSubject) {
	if ps.required(p.Child("name"), a.Name) && a.Name != flowcontrolv1.NameAll {
		ps.each(p.Child("name"), a.Name, apivalidation.ValidateServiceAccountName(a.Name, false))
	}
	ps.present(a.Namespace != "", p.Child("namespace"), "must specify namespace for service account")
	if a.Namespace != "" {
		ps.each(p.Child("namespace"), a.Namespace, apivalidation.ValidateNamespaceName(a.Namespace, false))
	}
}

func checkFlowResources(ps *problems, p *field.Path, r *flowcontrolv1.ResourcePolicyRule) {
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
				ps.add(field.Invalid(namespaces.Index(i), namespace, "each member of this list must be '*' or a DNS-1123 label; "+m))
			}
		}
	}
}

// flowVerbs are those that requests may have, in the order of messages.
var flowVerbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"}

func checkFlowVerbs(ps *problems, p *field.Path, verbs []string) {
	if !checkFlowList(ps, p, verbs, "verbs must contain at least one value", "other verbs") {
		return
	}
	if slices.ContainsFunc(verbs, func(v string) bool { return !slices.Contains(flowVerbs, v) }) {
		ps.add(field.NotSupported(p, verbs, flowVerbs))
	}
}

// checkFlowList requires list to have a value, and * to be the only one. It reports
// whether each value is to be checked by itself.
func checkFlowList(ps *problems, p *field.Path, list []string, missing, others string) bool {
	ps.present(len(list) > 0, p, missing)
	all := slices.Contains(list, "*")
	ps.valid(!all || len(list) == 1, p, list, "if '*' is present, must not specify "+others)
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
