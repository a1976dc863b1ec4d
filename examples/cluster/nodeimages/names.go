package nodeimages

import (
	"strings"

	"github.com/planekit/planekit/kubelet/images"
)

// fullName returns the name of an image as containerd has it: with a registry, and with a tag unless it has a digest.
func fullName(name string) (string, error) {
	if err := images.CheckName(name); err != nil {
		return "", err
	}
	registry := images.Registry(name)
	path := strings.TrimPrefix(name, registry+"/")
	if registry == "index.docker.io" {
		registry = "docker.io"
	}
	if registry == "docker.io" && !strings.Contains(path, "/") {
		path = "library/" + path
	}
	if !strings.Contains(path, ":") && !strings.Contains(path, "@") {
		path += ":latest"
	}
	return registry + "/" + path, nil
}

// tagged reports whether a name has a tag or a digest.
func tagged(name string) bool {
	return strings.Contains(name[strings.LastIndex(name, "/")+1:], ":") || strings.Contains(name, "@")
}
