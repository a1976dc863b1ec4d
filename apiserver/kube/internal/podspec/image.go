package podspec

import (
	"regexp"

	corev1 "k8s.io/api/core/v1"
)

// imageReference is the grammar of image references
// (https://pkg.go.dev/github.com/distribution/reference): an optional domain, a
// path in lower case, an optional tag (group 1) and digest (group 2).
var imageReference = func() *regexp.Regexp {
	const (
		label  = `(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])`
		domain = `(?:` + label + `(?:\.` + label + `)*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?`
		part   = `[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*`
		tag    = `[\w][\w.-]{0,127}`
		digest = `[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}`
	)
	return regexp.MustCompile(`^(?:` + domain + `/)?` + part + `(?:/` + part + `)*(?::(` + tag + `))?(?:@(` + digest + `))?$`)
}()

// pullPolicy is the default for an image: Always where the tag is latest or, with
// no digest either, missing. A reference that no runtime could parse gets
// IfNotPresent.
func pullPolicy(image string) corev1.PullPolicy {
	m := imageReference.FindStringSubmatch(image)
	if m == nil {
		return corev1.PullIfNotPresent
	}
	if tag, digest := m[1], m[2]; tag == "latest" || tag == "" && digest == "" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}
