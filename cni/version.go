package cni

import (
	"fmt"
	"slices"
)

// Versions returns the specification versions supported, oldest first.
func Versions() []string { return []string{"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"} }

// Supported reports whether version is one of [Versions].
func Supported(version string) bool { return slices.Contains(Versions(), version) }

// AtLeast reports whether version is at least other. Both must be in [Versions].
func AtLeast(version, other string) bool {
	all := Versions()
	return slices.Index(all, version) >= slices.Index(all, other)
}

// negotiate returns the highest offered version that is supported.
func negotiate(version string, versions []string) (string, error) {
	offered := slices.Concat(versions, []string{version})
	for _, v := range slices.Backward(Versions()) {
		if slices.Contains(offered, v) {
			return v, nil
		}
	}
	if version == "" && len(versions) == 0 {
		return "", &Error{Code: CodeIncompatibleVersion, Msg: "cniVersion is missing"}
	}
	return "", &Error{
		Code:    CodeIncompatibleVersion,
		Msg:     "incompatible CNI versions",
		Details: fmt.Sprintf("configuration is %q, supported are %q", version, Versions()),
	}
}
