package core

import (
	"fmt"
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/podspec"
	"github.com/planekit/planekit/kinds"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// LimitRanges returns the resource of the kind LimitRange.
func LimitRanges() apiserver.Resource {
	return apiserver.For(kinds.LimitRanges, apiserver.Resource{
		CreateOnUpdate: true,
		Strategy: define.Strategy[*corev1.LimitRange]{
			Default: completeLimitRange,
			Create: func(l *corev1.LimitRange) {
				if l.Name == "" { // which Kubernetes allows this kind alone
					l.Name = string(uuid.NewUUID())
				}
			},
			Validate:       validateLimitRange,
			ValidateUpdate: func(l, _ *corev1.LimitRange) field.ErrorList { return validateLimitRange(l) },
		}.Erase(),
		Columns: []apiserver.Column{column.CreatedAt[*corev1.LimitRange]()},
	})
}

// completeLimitRange defaults the limit of containers to the maximum, and their request to the
// limit or else to the minimum.
func completeLimitRange(l *corev1.LimitRange) {
	for i := range l.Spec.Limits {
		item := &l.Spec.Limits[i]
		for _, list := range []corev1.ResourceList{item.Max, item.Min, item.Default, item.DefaultRequest, item.MaxLimitRequestRatio} {
			podspec.RoundUp(list)
		}
		if item.Type != corev1.LimitTypeContainer {
			continue
		}
		for _, from := range []struct {
			to   *corev1.ResourceList
			list corev1.ResourceList
		}{{&item.Default, item.Max}, {&item.DefaultRequest, nil}, {&item.DefaultRequest, item.Min}} {
			if *from.to == nil {
				*from.to = corev1.ResourceList{}
			}
			if from.list == nil {
				from.list = item.Default
			}
			for name, q := range from.list {
				podspec.SetAmount(from.to, name, q)
			}
		}
	}
}

func validateLimitRange(l *corev1.LimitRange) field.ErrorList {
	var ps check.Problems
	seen := map[corev1.LimitType]bool{}
	for i := range l.Spec.Limits {
		item, p := &l.Spec.Limits[i], field.NewPath("spec", "limits").Index(i)
		checkLimitType(&ps, p.Child("type"), item.Type)
		ps.Unique(!seen[item.Type], p.Child("type"), item.Type)
		seen[item.Type] = true
		checkLimitNames(&ps, p, item)
		if item.Type == corev1.LimitTypePersistentVolumeClaim {
			_, least := item.Min[corev1.ResourceStorage]
			_, most := item.Max[corev1.ResourceStorage]
			ps.Present(least || most, p.Child("limits"), "either minimum or maximum storage value is required, but neither was provided")
		}
		checkLimits(&ps, p, item)
	}
	return ps.List
}

func checkLimitType(ps *check.Problems, p *field.Path, t corev1.LimitType) {
	if msgs := validation.IsQualifiedName(string(t)); len(msgs) > 0 {
		ps.Each(p, t, msgs)
		return
	}
	switch t {
	case corev1.LimitTypePod, corev1.LimitTypeContainer, corev1.LimitTypePersistentVolumeClaim:
	default:
		ps.Valid(strings.Contains(string(t), "/"), p, t, "must be a standard limit type or fully qualified")
	}
}

func checkLimitNames(ps *check.Problems, p *field.Path, item *corev1.LimitRangeItem) {
	checkName := resourceName
	if item.Type == corev1.LimitTypePod || item.Type == corev1.LimitTypeContainer {
		checkName = podspec.ContainerResource
	}
	for _, list := range []struct {
		path    string
		amounts corev1.ResourceList
	}{
		{"max", item.Max}, {"min", item.Min}, {"default", item.Default},
		{"defaultRequest", item.DefaultRequest}, {"maxLimitRequestRatio", item.MaxLimitRequestRatio},
	} {
		if item.Type == corev1.LimitTypePod && strings.HasPrefix(list.path, "default") {
			ps.Allowed(len(list.amounts) == 0, p.Child(list.path), "may not be specified when `type` is 'Pod'")
			continue
		}
		for _, name := range check.SortedKeys(list.amounts) {
			checkName(ps, p.Child(list.path).Key(string(name)), name)
		}
	}
}

// checkLimits requires min <= defaultRequest <= default <= max, and a ratio that
// these allow.
func checkLimits(ps *check.Problems, p *field.Path, item *corev1.LimitRangeItem) {
	item = item.DeepCopy()
	if item.Type == corev1.LimitTypePod {
		item.Default, item.DefaultRequest = nil, nil
	}
	all := corev1.ResourceList{}
	for _, list := range []corev1.ResourceList{item.Max, item.Min, item.Default, item.DefaultRequest, item.MaxLimitRequestRatio} {
		for name := range list {
			all[name] = resource.Quantity{}
		}
	}
	for _, name := range check.SortedKeys(all) {
		min, max, limit, request := item.Min[name], item.Max[name], item.Default[name], item.DefaultRequest[name]
		_, hasMin := item.Min[name]
		_, hasMax := item.Max[name]
		_, hasLimit := item.Default[name]
		_, hasRequest := item.DefaultRequest[name]
		for _, order := range []struct {
			known             bool
			path              string
			shown, less, more *resource.Quantity
			message           string
		}{
			{hasMin && hasMax, "min", &min, &min, &max, "min value %s is greater than max value %s"},
			{hasMin && hasRequest, "defaultRequest", &request, &min, &request, "min value %s is greater than default request value %s"},
			{hasRequest && hasMax, "defaultRequest", &request, &request, &max, "default request value %s is greater than max value %s"},
			{hasRequest && hasLimit, "defaultRequest", &request, &request, &limit, "default request value %s is greater than default limit value %s"},
			{hasMin && hasLimit, "default", &min, &min, &limit, "min value %s is greater than default value %s"},
			{hasLimit && hasMax, "default", &max, &limit, &max, "default value %s is greater than max value %s"},
		} {
			if order.known && order.less.Cmp(*order.more) > 0 {
				ps.Add(field.Invalid(p.Child(order.path).Key(string(name)), *order.shown,
					fmt.Sprintf(order.message, order.less, order.more)))
			}
		}
		if ratio, ok := item.MaxLimitRequestRatio[name]; ok {
			checkRatio(ps, p.Child("maxLimitRequestRatio").Key(string(name)), ratio, min, max, hasMin && hasMax)
		}
		if !podspec.CanOvercommit(name) && hasLimit && hasRequest && limit.Cmp(request) != 0 {
			ps.Add(field.Invalid(p.Child("defaultRequest").Key(string(name)), request,
				fmt.Sprintf("default value %s must equal to defaultRequest value %s in %s", &limit, &request, name)))
		}
	}
}

func checkRatio(ps *check.Problems, p *field.Path, ratio, min, max resource.Quantity, bounded bool) {
	ps.Valid(ratio.Cmp(resource.MustParse("1")) >= 0, p, ratio, fmt.Sprintf("ratio %s is less than 1", &ratio))
	if !bounded {
		return
	}
	most := max.AsApproximateFloat64() / min.AsApproximateFloat64()
	ps.Valid(ratio.AsApproximateFloat64() <= most, p, ratio, fmt.Sprintf("ratio %s is greater than max/min = %f", &ratio, most))
}

// resourceName checks the name of anything that is counted or measured.
func resourceName(ps *check.Problems, p *field.Path, n corev1.ResourceName) {
	if msgs := validation.IsQualifiedName(string(n)); len(msgs) > 0 {
		ps.Each(p, n, msgs)
		return
	}
	ps.Valid(strings.Contains(string(n), "/") || standardResource(n), p, n, "must be a standard resource type or fully qualified")
}
