package router

import (
	"cmp"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
)

// classAnnotation named the class before the field ingressClassName existed.
const classAnnotation = "kubernetes.io/ingress.class"

// Own returns the ingresses whose class has the controller, oldest first. If class is not empty, only
// those of this class. An ingress without a class has the default one: the newest that is marked.
func Own(controller, class string, ingresses []*networkingv1.Ingress, classes []*networkingv1.IngressClass) []*networkingv1.Ingress {
	ours := map[string]bool{}
	var standard *networkingv1.IngressClass
	for _, c := range classes {
		ours[c.Name] = c.Spec.Controller == controller && (class == "" || c.Name == class)
		if c.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" && (standard == nil || newer(c, standard)) {
			standard = c
		}
	}
	var own []*networkingv1.Ingress
	for _, in := range ingresses {
		name, annotated := in.Annotations[classAnnotation]
		switch {
		case in.Spec.IngressClassName != nil:
			name = *in.Spec.IngressClassName
		case !annotated && standard != nil:
			name = standard.Name
		}
		if ours[name] && in.DeletionTimestamp == nil {
			own = append(own, in)
		}
	}
	slices.SortFunc(own, func(a, b *networkingv1.Ingress) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(Key(a), Key(b)))
	})
	return own
}

// newer reports whether the API server would choose a before b as the default.
func newer(a, b *networkingv1.IngressClass) bool {
	return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}

// Key returns the key of an ingress, "namespace/name".
func Key(in *networkingv1.Ingress) string { return in.Namespace + "/" + in.Name }

// References reports whether an ingress names a service or a secret of its namespace.
func References(in *networkingv1.Ingress, service, secret string) bool {
	names := func(b *networkingv1.IngressBackend) bool {
		return b != nil && b.Service != nil && b.Service.Name == service && service != ""
	}
	if names(in.Spec.DefaultBackend) {
		return true
	}
	for _, rule := range in.Spec.Rules {
		if rule.HTTP != nil && slices.ContainsFunc(rule.HTTP.Paths, func(p networkingv1.HTTPIngressPath) bool { return names(&p.Backend) }) {
			return true
		}
	}
	return slices.ContainsFunc(in.Spec.TLS, func(t networkingv1.IngressTLS) bool { return t.SecretName == secret && secret != "" })
}
