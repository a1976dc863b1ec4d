package kube

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/apiregistration"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The highest priorities that an API service can have.
const (
	maxGroupPriority   = 20000
	maxVersionPriority = 1000
)

func apiServices() apiserver.Resource {
	type service = apiregistration.APIService
	r := apiserver.Resource{
		Group:      apiregistration.GroupName,
		Version:    "v1",
		Kind:       "APIService",
		Plural:     "apiservices",
		Categories: []string{"api-extensions"},
		New:        func() runtime.Object { return &service{} },
		NewList:    func() runtime.Object { return &apiregistration.APIServiceList{} },
		Strategy: strategy[*service]{
			complete: func(s *service) {
				if s.Spec.Service != nil {
					setIfNil(&s.Spec.Service.Port, webhookPort)
				}
			},
			create:         createAPIService,
			update:         func(s, old *service) { s.Status.Conditions = slices.Clone(old.Status.Conditions) },
			validate:       validateAPIService,
			validateUpdate: func(s, _ *service) field.ErrorList { return validateAPIService(s) },
		}.erase(),
		Columns: []apiserver.Column{
			text("Service", "The reference to the service that hosts this API endpoint.", func(s *service) string {
				if s.Spec.Service == nil {
					return "Local"
				}
				return s.Spec.Service.Namespace + "/" + s.Spec.Service.Name
			}),
			text("Available", "Whether this service is available.", availableText),
			age[*service](),
		},
		Subresources: []apiserver.Subresource{
			status(strategy[*service]{
				update: func(s, old *service) {
					s.Spec = old.DeepCopy().Spec
					s.Labels, s.Annotations = maps.Clone(old.Labels), maps.Clone(old.Annotations)
				},
				validateUpdate: func(s, _ *service) field.ErrorList {
					var ps problems
					for i, c := range s.Status.Conditions {
						oneOf(&ps, field.NewPath("status", "conditions").Index(i).Child("status"), c.Status,
							metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown)
					}
					return ps.list
				},
			}),
		},
	}
	r.Strategy.ValidateName = func(name string, _ bool) []string { return content.IsPathSegmentName(name) }
	return r
}

// createAPIService says of what this server serves itself that it is available.
func createAPIService(s *apiregistration.APIService) {
	s.Status = apiregistration.APIServiceStatus{}
	if s.Spec.Service == nil {
		s.Status.Conditions = []apiregistration.APIServiceCondition{{
			Type: apiregistration.Available, Status: metav1.ConditionTrue, Reason: "Local",
			Message: "Local APIServices are always available", LastTransitionTime: metav1.Now(),
		}}
	}
}

func availableText(s *apiregistration.APIService) string {
	for _, c := range s.Status.Conditions {
		switch {
		case c.Type != apiregistration.Available:
		case c.Status != metav1.ConditionTrue && c.Reason != "":
			return fmt.Sprintf("%s (%s)", c.Status, c.Reason)
		default:
			return string(c.Status)
		}
	}
	return string(metav1.ConditionUnknown)
}

func validateAPIService(s *apiregistration.APIService) field.ErrorList {
	var ps problems
	p, spec := field.NewPath("spec"), &s.Spec
	if want := spec.Version + "." + spec.Group; s.Name != want {
		ps.add(field.Invalid(field.NewPath("metadata", "name"), s.Name, fmt.Sprintf("must be `spec.version+\".\"+spec.group`: %q", want)))
	}
	if spec.Group != "" {
		ps.subdomain(p.Child("group"), spec.Group)
	} else {
		ps.present(spec.Version == "v1", p.Child("group"), "only v1 may have an empty group and it better be legacy kube")
	}
	ps.each(p.Child("version"), spec.Version, validation.IsDNS1035Label(spec.Version))
	ps.valid(spec.GroupPriorityMinimum > 0 && spec.GroupPriorityMinimum <= maxGroupPriority,
		p.Child("groupPriorityMinimum"), spec.GroupPriorityMinimum, "must be positive and less than 20000")
	ps.valid(spec.VersionPriority > 0 && spec.VersionPriority <= maxVersionPriority,
		p.Child("versionPriority"), spec.VersionPriority, "must be positive and less than 1000")
	insecure := p.Child("insecureSkipTLSVerify")
	if spec.Service == nil {
		ps.valid(len(spec.CABundle) == 0, p.Child("caBundle"), fmt.Sprintf("%d bytes", len(spec.CABundle)), "local APIServices may not have a caBundle")
		ps.valid(!spec.InsecureSkipTLSVerify, insecure, spec.InsecureSkipTLSVerify, "local APIServices may not have insecureSkipTLSVerify")
		return ps.list
	}
	ps.required(p.Child("service", "namespace"), spec.Service.Namespace)
	ps.required(p.Child("service", "name"), spec.Service.Name)
	port := deref(spec.Service.Port)
	if msgs := validation.IsValidPortNum(int(port)); len(msgs) > 0 {
		ps.add(field.Invalid(p.Child("service", "port"), port, "port is not valid: "+strings.Join(msgs, ", ")))
	}
	ps.valid(!spec.InsecureSkipTLSVerify || len(spec.CABundle) == 0, insecure, spec.InsecureSkipTLSVerify, "may not be true if caBundle is present")
	return ps.list
}
