package memruntime

import (
	"fmt"
	"regexp"
	"strings"
)

// The grammar of image references, from the distribution project's reference
// package documentation.
var (
	hostPattern   = regexp.MustCompile(`^([a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)(\.[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)*(:[0-9]+)?$|^\[[0-9a-fA-F:]+\](:[0-9]+)?$`)
	pathPattern   = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`)
	tagPattern    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	digestPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// reference is a complete image reference.
type reference struct {
	name   string // host and path
	tag    string // may be empty with a digest
	digest string // may be empty
}

func (r reference) String() string {
	s := r.name
	if r.tag != "" {
		s += ":" + r.tag
	}
	if r.digest != "" {
		s += "@" + r.digest
	}
	return s
}

// parseReference completes a short image reference: nginx becomes docker.io/library/nginx:latest.
func parseReference(s string) (reference, error) {
	var r reference
	rest, digest, hasDigest := strings.Cut(s, "@")
	if hasDigest {
		if !digestPattern.MatchString(digest) {
			return r, fmt.Errorf("image %q: bad digest", s)
		}
		r.digest = digest
	}
	if colon := strings.LastIndexByte(rest, ':'); colon > strings.LastIndexByte(rest, '/') {
		r.tag = rest[colon+1:]
		rest = rest[:colon]
		if !tagPattern.MatchString(r.tag) {
			return r, fmt.Errorf("image %q: bad tag", s)
		}
	} else if !hasDigest {
		r.tag = "latest"
	}
	host, path, cut := strings.Cut(rest, "/")
	if !cut || !strings.ContainsAny(host, ".:") && host != "localhost" {
		host, path = "docker.io", rest
	}
	if host == "docker.io" && !strings.Contains(path, "/") {
		path = "library/" + path
	}
	if !hostPattern.MatchString(host) || !pathPattern.MatchString(path) || len(host)+len(path) > 254 {
		return r, fmt.Errorf("image %q: invalid reference format", s)
	}
	r.name = host + "/" + path
	return r, nil
}
