// Package kubeletfields tests that no field of Kubernetes' KubeletConfiguration is accepted in silence:
// each is acted on, refused by name, or named in a warning.
package kubeletfields
