package objects

import (
	"fmt"

	"github.com/planekit/planekit/apiserver/flowcontrol"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
)

// distinguishers are the methods of the API.
var distinguishers = map[flowcontrolv1.FlowDistinguisherMethodType]flowcontrol.Distinguisher{
	flowcontrolv1.FlowDistinguisherMethodByUserType:      flowcontrol.ByUser,
	flowcontrolv1.FlowDistinguisherMethodByNamespaceType: flowcontrol.ByNamespace,
}

// schemaOf reads a schema. The error names each wrong field.
func schemaOf(object *flowcontrolv1.FlowSchema) (flowcontrol.Schema, error) {
	schema := flowcontrol.Schema{
		Name:       object.Name,
		UID:        string(object.UID),
		Precedence: int(object.Spec.MatchingPrecedence),
		Level:      object.Spec.PriorityLevelConfiguration.Name,
	}
	if m := object.Spec.DistinguisherMethod; m != nil {
		known := false
		if schema.Distinguisher, known = distinguishers[m.Type]; !known {
			return schema, fmt.Errorf("spec.distinguisherMethod.type: %q is unknown", m.Type)
		}
	}
	for i := range object.Spec.Rules {
		rule, err := ruleOf(&object.Spec.Rules[i])
		if err != nil {
			return schema, fmt.Errorf("spec.rules[%d].%w", i, err)
		}
		schema.Rules = append(schema.Rules, rule)
	}
	return schema, schema.Validate()
}

func ruleOf(object *flowcontrolv1.PolicyRulesWithSubjects) (flowcontrol.Rule, error) {
	var rule flowcontrol.Rule
	for i := range object.Subjects {
		s := &object.Subjects[i]
		switch {
		case s.Kind == flowcontrolv1.SubjectKindUser && s.User != nil:
			rule.Users = append(rule.Users, s.User.Name)
		case s.Kind == flowcontrolv1.SubjectKindGroup && s.Group != nil:
			rule.Groups = append(rule.Groups, s.Group.Name)
		case s.Kind == flowcontrolv1.SubjectKindServiceAccount && s.ServiceAccount != nil:
			rule.ServiceAccounts = append(rule.ServiceAccounts, flowcontrol.ServiceAccount(*s.ServiceAccount))
		default:
			return rule, fmt.Errorf("subjects[%d]: the kind %q is unknown, or the subject of this kind is missing", i, s.Kind)
		}
	}
	for _, r := range object.ResourceRules {
		rule.Resources = append(rule.Resources, flowcontrol.ResourceRule{
			Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, Namespaces: r.Namespaces, ClusterScope: r.ClusterScope,
		})
	}
	for _, r := range object.NonResourceRules {
		rule.Paths = append(rule.Paths, flowcontrol.PathRule{Verbs: r.Verbs, Paths: r.NonResourceURLs})
	}
	return rule, nil
}

// schemaObject writes a valid schema as an object.
func schemaObject(schema *flowcontrol.Schema) *flowcontrolv1.FlowSchema {
	out := &flowcontrolv1.FlowSchema{ObjectMeta: kept(schema.Name), Spec: flowcontrolv1.FlowSchemaSpec{
		PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: schema.Level},
		MatchingPrecedence:         int32(schema.Precedence),
	}}
	for method, distinguisher := range distinguishers {
		if distinguisher == schema.Distinguisher {
			out.Spec.DistinguisherMethod = &flowcontrolv1.FlowDistinguisherMethod{Type: method}
		}
	}
	for i := range schema.Rules {
		out.Spec.Rules = append(out.Spec.Rules, ruleObject(&schema.Rules[i]))
	}
	return out
}

func ruleObject(rule *flowcontrol.Rule) flowcontrolv1.PolicyRulesWithSubjects {
	var out flowcontrolv1.PolicyRulesWithSubjects
	for _, name := range rule.Users {
		out.Subjects = append(out.Subjects, flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: name}})
	}
	for _, name := range rule.Groups {
		out.Subjects = append(out.Subjects, flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindGroup, Group: &flowcontrolv1.GroupSubject{Name: name}})
	}
	for _, account := range rule.ServiceAccounts {
		out.Subjects = append(out.Subjects, flowcontrolv1.Subject{
			Kind: flowcontrolv1.SubjectKindServiceAccount, ServiceAccount: new(flowcontrolv1.ServiceAccountSubject(account)),
		})
	}
	for _, r := range rule.Resources {
		out.ResourceRules = append(out.ResourceRules, flowcontrolv1.ResourcePolicyRule{
			Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, Namespaces: r.Namespaces, ClusterScope: r.ClusterScope,
		})
	}
	for _, r := range rule.Paths {
		out.NonResourceRules = append(out.NonResourceRules, flowcontrolv1.NonResourcePolicyRule{Verbs: r.Verbs, NonResourceURLs: r.Paths})
	}
	return out
}
