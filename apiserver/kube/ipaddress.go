package kube

import (
	"net/netip"
	"strings"

	"github.com/planekit/planekit/apiserver"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func ipAddresses() apiserver.Resource {
	r := apiserver.Resource{
		Group:      networkingv1.GroupName,
		Version:    "v1",
		Kind:       "IPAddress",
		Plural:     "ipaddresses",
		ShortNames: []string{"ip"},
		New:        func() runtime.Object { return &networkingv1.IPAddress{} },
		NewList:    func() runtime.Object { return &networkingv1.IPAddressList{} },
		Strategy: strategy[*networkingv1.IPAddress]{
			validate: validateIPAddress,
			validateUpdate: func(ip, old *networkingv1.IPAddress) field.ErrorList {
				var ps problems
				ps.immutable(field.NewPath("spec", "parentRef"), ip.Spec.ParentRef, old.Spec.ParentRef)
				return ps.list
			},
		}.erase(),
		Columns: []apiserver.Column{
			text("ParentRef", networkingv1.IPAddressSpec{}.SwaggerDoc()["parentRef"], parentText),
			age[*networkingv1.IPAddress](),
		},
		Fields: selectable[*networkingv1.IPAddress]{
			"spec.parentRef.group":     func(ip *networkingv1.IPAddress) string { return parentOf(ip).Group },
			"spec.parentRef.resource":  func(ip *networkingv1.IPAddress) string { return parentOf(ip).Resource },
			"spec.parentRef.namespace": func(ip *networkingv1.IPAddress) string { return parentOf(ip).Namespace },
			"spec.parentRef.name":      func(ip *networkingv1.IPAddress) string { return parentOf(ip).Name },
		}.erase(),
	}
	r.Strategy.ValidateName = func(name string, _ bool) []string {
		var out []string
		for _, err := range validation.IsValidIP(nil, name) {
			out = append(out, err.Detail)
		}
		return out
	}
	return r
}

func parentOf(ip *networkingv1.IPAddress) networkingv1.ParentReference {
	return deref(ip.Spec.ParentRef)
}

func parentText(ip *networkingv1.IPAddress) string {
	if ip.Spec.ParentRef == nil {
		return none
	}
	parent := parentOf(ip)
	parts := []string{strings.ToLower(schema.GroupResource{Group: parent.Group, Resource: parent.Resource}.String())}
	if parent.Namespace != "" {
		parts = append(parts, parent.Namespace)
	}
	return strings.Join(append(parts, parent.Name), "/")
}

func validateIPAddress(ip *networkingv1.IPAddress) field.ErrorList {
	var ps problems
	p := field.NewPath("spec", "parentRef")
	if ip.Spec.ParentRef == nil {
		ps.add(field.Required(p, ""))
		return ps.list
	}
	parent := parentOf(ip)
	if parent.Group != "" {
		ps.subdomain(p.Child("group"), parent.Group)
	}
	checkSegment(&ps, p.Child("resource"), parent.Resource)
	checkSegment(&ps, p.Child("name"), parent.Name)
	ps.each(p.Child("namespace"), parent.Namespace, content.IsPathSegmentName(parent.Namespace))
	return ps.list
}

// serviceCIDRs are there to be read and written. The ranges that addresses come
// from are those of [Config].
func serviceCIDRs() apiserver.Resource {
	type cidr = networkingv1.ServiceCIDR
	return apiserver.Resource{
		Group:   networkingv1.GroupName,
		Version: "v1",
		Kind:    "ServiceCIDR",
		Plural:  "servicecidrs",
		New:     func() runtime.Object { return &cidr{} },
		NewList: func() runtime.Object { return &networkingv1.ServiceCIDRList{} },
		Strategy: strategy[*cidr]{
			create:         func(c *cidr) { c.Status = networkingv1.ServiceCIDRStatus{} },
			update:         func(c, old *cidr) { old.Status.DeepCopyInto(&c.Status) },
			validate:       validateServiceCIDR,
			validateUpdate: validateServiceCIDRUpdate,
		}.erase(),
		Columns: []apiserver.Column{
			text("CIDRs", networkingv1.ServiceCIDRSpec{}.SwaggerDoc()["cidrs"], func(c *cidr) string { return strings.Join(c.Spec.CIDRs, ",") }),
			age[*cidr](),
		},
		Subresources: []apiserver.Subresource{
			status(strategy[*cidr]{
				update:         func(c, old *cidr) { old.Spec.DeepCopyInto(&c.Spec) },
				validateUpdate: func(*cidr, *cidr) field.ErrorList { return nil },
			}),
		},
	}
}

func validateServiceCIDR(c *networkingv1.ServiceCIDR) field.ErrorList {
	var ps problems
	p, cidrs := field.NewPath("spec", "cidrs"), c.Spec.CIDRs
	switch {
	case len(cidrs) == 0:
		ps.add(field.Required(p, "at least one CIDR required"))
	case len(cidrs) > 2:
		ps.add(field.Invalid(p, &c.Spec, "may only hold up to 2 values"))
	default:
		for i, cidr := range cidrs {
			ps.all(validation.IsValidCIDR(p.Index(i), cidr))
		}
		if len(cidrs) == 2 {
			a, err := netip.ParsePrefix(cidrs[0])
			b, err2 := netip.ParsePrefix(cidrs[1])
			ps.valid(err != nil || err2 != nil || a.Addr().Is4() != b.Addr().Is4(), p, cidrs,
				"may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64")
		}
	}
	return ps.list
}

// validateServiceCIDRUpdate lets a range of the other family be added.
func validateServiceCIDRUpdate(c, old *networkingv1.ServiceCIDR) field.ErrorList {
	var ps problems
	p, now, was := field.NewPath("spec", "cidrs"), c.Spec.CIDRs, old.Spec.CIDRs
	switch {
	case len(now) == len(was), len(was) == 1 && len(now) == 2:
		for i := range was {
			ps.valid(now[i] == was[i], p.Index(i), now[i], "field is immutable")
		}
		if len(now) != len(was) {
			ps.all(validateServiceCIDR(c))
		}
	default:
		ps.add(field.Invalid(p, now, "field is immutable"))
	}
	return ps.list
}
