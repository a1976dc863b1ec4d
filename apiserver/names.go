package apiserver

import "k8s.io/apimachinery/pkg/api/validate/content"

// PathSegmentName is a ValidateName for names of which it is only required that they are a segment of a path, such as
// "system:node".
func PathSegmentName(name string, prefix bool) []string {
	if prefix && (name == "." || name == "..") {
		return nil // more follows
	}
	return content.IsPathSegmentName(name)
}
