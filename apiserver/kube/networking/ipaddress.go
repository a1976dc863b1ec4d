package networking

import (
	"net/netip"
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/kinds"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// IPAddresses returns the resource of the kind IPAddress.
func IPAddresses() apiserver.Resource {
	r := apiserver.For(kinds.IPAddresses, apiserver.Resource{
		Strategy: define.Strategy[*networkingv1.IPAddress]{
			Validate: validateIPAddress,
			ValidateUpdate: func(ip, old *networkingv1.IPAddress) field.ErrorList {
				ps := check.Problems{List: validateIPAddress(ip)}
				ps.Immutable(field.NewPath("spec", "parentRef"), ip.Spec.ParentRef, old.Spec.ParentRef)
				return ps.List
			},
		}.Erase(),
		Columns: []apiserver.Column{
			column.Text("ParentRef", networkingv1.IPAddressSpec{}.SwaggerDoc()["parentRef"], parentText),
			column.Age[*networkingv1.IPAddress](),
		},
	})
	r.Strategy.ValidateName = ipAddressName
	return r
}

func ipAddressName(name string, _ bool) (problems []string) {
	for _, err := range validation.IsValidIP(nil, name) {
		problems = append(problems, err.Detail)
	}
	return problems
}

func parentOf(ip *networkingv1.IPAddress) networkingv1.ParentReference {
	return optional.Deref(ip.Spec.ParentRef)
}

func parentText(ip *networkingv1.IPAddress) string {
	if ip.Spec.ParentRef == nil {
		return column.None
	}
	parent := parentOf(ip)
	parts := []string{strings.ToLower(schema.GroupResource{Group: parent.Group, Resource: parent.Resource}.String())}
	if parent.Namespace != "" {
		parts = append(parts, parent.Namespace)
	}
	return strings.Join(append(parts, parent.Name), "/")
}

func validateIPAddress(ip *networkingv1.IPAddress) field.ErrorList {
	var ps check.Problems
	p := field.NewPath("spec", "parentRef")
	if ip.Spec.ParentRef == nil {
		ps.Add(field.Required(p, ""))
		return ps.List
	}
	parent := parentOf(ip)
	if parent.Group != "" {
		ps.Subdomain(p.Child("group"), parent.Group)
	}
	checkSegment(&ps, p.Child("resource"), parent.Resource)
	checkSegment(&ps, p.Child("name"), parent.Name)
	ps.Each(p.Child("namespace"), parent.Namespace, content.IsPathSegmentName(parent.Namespace))
	return ps.List
}

// ServiceCIDRs returns the resource of the kind ServiceCIDR.
func ServiceCIDRs() apiserver.Resource {
	type cidr = networkingv1.ServiceCIDR
	return apiserver.For(kinds.ServiceCIDRs, apiserver.Resource{
		Strategy: define.Strategy[*cidr]{
			Create:         func(c *cidr) { c.Status = networkingv1.ServiceCIDRStatus{} },
			Update:         func(c, old *cidr) { old.Status.DeepCopyInto(&c.Status) },
			Validate:       validateServiceCIDR,
			ValidateUpdate: validateServiceCIDRUpdate,
		}.Erase(),
		Columns: []apiserver.Column{
			column.Text("CIDRs", networkingv1.ServiceCIDRSpec{}.SwaggerDoc()["cidrs"], func(c *cidr) string { return strings.Join(c.Spec.CIDRs, ",") }),
			column.Age[*cidr](),
		},
		Subresources: []apiserver.Subresource{
			define.Status(define.Strategy[*cidr]{
				Update: func(c, old *cidr) {
					metav1.ResetObjectMetaForStatus(&c.ObjectMeta, &old.ObjectMeta)
					old.Spec.DeepCopyInto(&c.Spec)
				},
				ValidateUpdate: func(*cidr, *cidr) field.ErrorList { return nil },
			}, "spec", "metadata"),
		},
	})
}

func validateServiceCIDR(c *networkingv1.ServiceCIDR) field.ErrorList {
	var ps check.Problems
	p, cidrs := field.NewPath("spec", "cidrs"), c.Spec.CIDRs
	switch {
	case len(cidrs) == 0:
		ps.Add(field.Required(p, "at least one CIDR required"))
	case len(cidrs) > 2:
		ps.Add(field.Invalid(p, &c.Spec, "may only hold up to 2 values"))
	default:
		for i, cidr := range cidrs {
			ps.All(validation.IsValidCIDR(p.Index(i), cidr))
		}
		if len(cidrs) == 2 {
			a, err := netip.ParsePrefix(cidrs[0])
			b, err2 := netip.ParsePrefix(cidrs[1])
			ps.Valid(err != nil || err2 != nil || a.Addr().Is4() != b.Addr().Is4(), p, cidrs,
				"may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64")
		}
	}
	return ps.List
}

// validateServiceCIDRUpdate lets a range of the other family be added.
func validateServiceCIDRUpdate(c, old *networkingv1.ServiceCIDR) field.ErrorList {
	var ps check.Problems
	p, now, was := field.NewPath("spec", "cidrs"), c.Spec.CIDRs, old.Spec.CIDRs
	switch {
	case len(now) == len(was), len(was) == 1 && len(now) == 2:
		for i := range was {
			ps.Valid(now[i] == was[i], p.Index(i), now[i], "field is immutable")
		}
		if len(now) != len(was) {
			ps.All(validateServiceCIDR(c))
		}
	default:
		ps.Add(field.Invalid(p, now, "field is immutable"))
	}
	return ps.List
}
