package apiregistration

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/kinds"
	apiregistrationv1 "github.com/planekit/planekit/kinds/apiregistration"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The highest priorities that an API service can have.
const (
	maxGroupPriority   = 20000
	maxVersionPriority = 1000
)

// APIServices returns the resource of the kind APIService.
func APIServices() apiserver.Resource {
	type service = apiregistrationv1.APIService
	r := apiserver.For(kinds.APIServices, apiserver.Resource{
		Conditional: true, StoredJSON: true,
		Strategy: define.Strategy[*service]{
			Default: func(s *service) {
				if s.Spec.Service != nil {
					optional.SetIfNil(&s.Spec.Service.Port, 443)
				}
			},
			Create:         createAPIService,
			Update:         func(s, old *service) { s.Status.Conditions = slices.Clone(old.Status.Conditions) },
			Validate:       validateAPIService,
			ValidateUpdate: func(s, _ *service) field.ErrorList { return validateAPIService(s) },
		}.Erase(),
		Columns: []apiserver.Column{
			column.Text("Service", "The reference to the service that hosts this API endpoint.", func(s *service) string {
				if s.Spec.Service == nil {
					return "Local"
				}
				return s.Spec.Service.Namespace + "/" + s.Spec.Service.Name
			}),
			column.Text("Available", "Whether this service is available.", availableText),
			column.Age[*service](),
		},
		Subresources: []apiserver.Subresource{
			define.Status(define.Strategy[*service]{
				Update: func(s, old *service) {
					s.Spec = old.DeepCopy().Spec
					s.Labels, s.Annotations = maps.Clone(old.Labels), maps.Clone(old.Annotations)
					s.OwnerReferences, s.Finalizers = slices.Clone(old.OwnerReferences), slices.Clone(old.Finalizers)
				},
				ValidateUpdate: func(s, _ *service) field.ErrorList {
					var ps check.Problems
					for i, c := range s.Status.Conditions {
						check.OneOf(&ps, field.NewPath("status", "conditions").Index(i).Child("status"), c.Status,
							metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown)
					}
					return ps.List
				},
			}, "spec", "metadata"),
		},
	})
	r.Strategy.ValidateName = apiserver.PathSegmentName
	return r
}

// createAPIService marks an APIService without a service, whose group this server serves itself, as
// available.
func createAPIService(s *apiregistrationv1.APIService) {
	s.Status = apiregistrationv1.APIServiceStatus{}
	if s.Spec.Service == nil {
		s.Status.Conditions = []apiregistrationv1.APIServiceCondition{{
			Type: apiregistrationv1.Available, Status: metav1.ConditionTrue, Reason: "Local",
			Message: "Local APIServices are always available", LastTransitionTime: metav1.Now(),
		}}
	}
}

func availableText(s *apiregistrationv1.APIService) string {
	for _, c := range s.Status.Conditions {
		switch {
		case c.Type != apiregistrationv1.Available:
		case c.Status != metav1.ConditionTrue && c.Reason != "":
			return fmt.Sprintf("%s (%s)", c.Status, c.Reason)
		default:
			return string(c.Status)
		}
	}
	return string(metav1.ConditionUnknown)
}

func validateAPIService(s *apiregistrationv1.APIService) field.ErrorList {
	var ps check.Problems
	p, spec := field.NewPath("spec"), &s.Spec
	want := spec.Version + "." + spec.Group
	for _, name := range []struct{ field, value string }{{"generateName", s.GenerateName}, {"name", s.Name}} {
		if name.value != want && name.value != "" && len(apiserver.PathSegmentName(name.value, false)) == 0 { // what is no name is said of all kinds
			ps.Add(field.Invalid(field.NewPath("metadata", name.field), name.value, fmt.Sprintf("must be `spec.version+\".\"+spec.group`: %q", want)))
		}
	}
	if spec.Group != "" {
		ps.Subdomain(p.Child("group"), spec.Group)
	} else {
		ps.Present(spec.Version == "v1", p.Child("group"), "only v1 may have an empty group and it better be legacy kube")
	}
	ps.Each(p.Child("version"), spec.Version, validation.IsDNS1035Label(spec.Version))
	ps.Valid(spec.GroupPriorityMinimum > 0 && spec.GroupPriorityMinimum <= maxGroupPriority,
		p.Child("groupPriorityMinimum"), spec.GroupPriorityMinimum, "must be positive and less than 20000")
	ps.Valid(spec.VersionPriority > 0 && spec.VersionPriority <= maxVersionPriority,
		p.Child("versionPriority"), spec.VersionPriority, "must be positive and less than 1000")
	insecure := p.Child("insecureSkipTLSVerify")
	if spec.Service == nil {
		ps.Valid(len(spec.CABundle) == 0, p.Child("caBundle"), fmt.Sprintf("%d bytes", len(spec.CABundle)), "local APIServices may not have a caBundle")
		ps.Valid(!spec.InsecureSkipTLSVerify, insecure, spec.InsecureSkipTLSVerify, "local APIServices may not have insecureSkipTLSVerify")
		return ps.List
	}
	ps.Required(p.Child("service", "namespace"), spec.Service.Namespace)
	ps.Required(p.Child("service", "name"), spec.Service.Name)
	port := optional.Deref(spec.Service.Port)
	if msgs := validation.IsValidPortNum(int(port)); len(msgs) > 0 {
		ps.Add(field.Invalid(p.Child("service", "port"), port, "port is not valid: "+strings.Join(msgs, ", ")))
	}
	ps.Valid(!spec.InsecureSkipTLSVerify || len(spec.CABundle) == 0, insecure, spec.InsecureSkipTLSVerify, "may not be true if caBundle is present")
	return ps.List
}
