package images

import (
	"fmt"
	"regexp"
	"strings"
)

// The grammar of image names
// (https://pkg.go.dev/github.com/distribution/reference#pkg-overview).
const (
	hostPattern      = `(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])`
	domainPattern    = `(?:` + hostPattern + `(?:\.` + hostPattern + `)*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?`
	componentPattern = `[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*`
	tagPattern       = `[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}`
	digestPattern    = `[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}`
)

var (
	imageName = regexp.MustCompile(`^` + domainPattern + `/` + componentPattern + `(?:/` + componentPattern + `)*` +
		`(?::` + tagPattern + `)?(?:@` + digestPattern + `)?$`)
	identifier = regexp.MustCompile(`^[a-f0-9]{64}$`)
)

// maxName is the length of a repository's name in bytes.
const maxName = 255

// CheckName returns an error if a name of an image is invalid, in the words of the Kubernetes kubelet.
func CheckName(name string) error {
	if err := checkName(name); err != nil {
		return fmt.Errorf("couldn't parse image name %q: %w", name, err)
	}
	return nil
}

func checkName(name string) error {
	if identifier.MatchString(name) {
		return fmt.Errorf("invalid repository name (%s), cannot specify 64-byte hexadecimal strings", name)
	}
	domain, rest := splitDomain(name)
	path, _, _ := strings.Cut(rest, "@")
	path, _, _ = strings.Cut(path, ":")
	switch {
	case strings.ToLower(path) != path:
		return fmt.Errorf("invalid reference format: repository name (%s) must be lowercase", path)
	case !imageName.MatchString(domain + "/" + rest):
		return fmt.Errorf("invalid reference format")
	case len(path) > maxName:
		return fmt.Errorf("repository name must not be more than %d characters", maxName)
	}
	return nil
}

// Registry returns the host of an image's registry.
func Registry(name string) string {
	domain, _ := splitDomain(name)
	return domain
}

// splitDomain returns the registry of an image, and the rest of its name. Without a registry, it is
// Docker Hub's.
func splitDomain(name string) (domain, rest string) {
	domain, rest, ok := strings.Cut(name, "/")
	if !ok || !strings.ContainsAny(domain, ".:") && domain != "localhost" && strings.ToLower(domain) == domain {
		domain, rest = "docker.io", name
	}
	if domain == "docker.io" && !strings.Contains(rest, "/") {
		rest = "library/" + rest
	}
	return domain, rest
}
