package kubecel

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// version is a semantic version (https://semver.org/spec/v2.0.0.html) without its build metadata,
// which has no effect on comparisons.
type version struct {
	numbers [3]uint64 // major, minor, patch
	before  []string  // identifiers of the pre-release
}

const digits = "0123456789"

func parseVersion(text string) (v version, err error) {
	core, build, built := strings.Cut(text, "+")
	core, before, early := strings.Cut(core, "-")
	parts := strings.Split(core, ".")
	if len(parts) != len(v.numbers) {
		return v, errors.New("no Major.Minor.Patch elements found")
	}
	for i, part := range parts {
		if v.numbers[i], err = number(part); err != nil {
			return v, err
		}
	}
	if early {
		v.before = strings.Split(before, ".")
		for _, part := range v.before {
			if numeric(part) {
				_, err = number(part)
			} else {
				err = word(part)
			}
			if err != nil {
				return v, fmt.Errorf("prerelease: %w", err)
			}
		}
	}
	if built {
		for part := range strings.SplitSeq(build, ".") {
			if err := word(part); err != nil {
				return v, fmt.Errorf("build metadata: %w", err)
			}
		}
	}
	return v, nil
}

func numeric(s string) bool { return s != "" && strings.Trim(s, digits) == "" }

// number parses a number without a sign or leading zeros.
func number(s string) (uint64, error) {
	if !numeric(s) || len(s) > 1 && s[0] == '0' {
		return 0, fmt.Errorf("%q is not a number without leading zeros", s)
	}
	return strconv.ParseUint(s, 10, 64)
}

func word(s string) error {
	outside := func(r rune) bool {
		return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '-')
	}
	if s == "" || strings.ContainsFunc(s, outside) {
		return fmt.Errorf("%q is not made of letters, digits and hyphens", s)
	}
	return nil
}

// parseLoosely also parses versions such as v1.2 and 01.2.3.
func parseLoosely(text string) (version, error) {
	parts := strings.SplitN(strings.TrimPrefix(text, "v"), ".", 3)
	for i, part := range parts {
		if len(part) < 2 {
			continue
		}
		parts[i] = strings.TrimLeft(part, "0")
		if parts[i] == "" || !strings.Contains(digits, parts[i][:1]) {
			parts[i] = "0" + parts[i]
		}
	}
	if len(parts) < 3 && strings.ContainsAny(parts[len(parts)-1], "+-") {
		return version{}, errors.New("short version cannot contain PreRelease/Build meta data")
	}
	for len(parts) < 3 {
		parts = append(parts, "0")
	}
	return parseVersion(strings.Join(parts, "."))
}

func compareVersions(a, b version) int {
	if c := slices.Compare(a.numbers[:], b.numbers[:]); c != 0 {
		return c
	}
	if len(a.before) == 0 || len(b.before) == 0 {
		return cmp.Compare(len(b.before), len(a.before)) // a pre-release precedes its release
	}
	return slices.CompareFunc(a.before, b.before, func(s, t string) int {
		m, errS := number(s)
		n, errT := number(t)
		switch {
		case errS == nil && errT == nil:
			return cmp.Compare(m, n)
		case errS == nil:
			return -1
		case errT == nil:
			return 1
		}
		return strings.Compare(s, t)
	})
}

var versionKind = reading[version]{cel.OpaqueType("kubernetes.Semver"), parseVersion, func(a, b version) bool { return compareVersions(a, b) == 0 }}

// versions returns Kubernetes' library for semantic versions.
func versions() []cel.EnvOption {
	text, loose, two := []*cel.Type{cel.StringType}, []*cel.Type{cel.StringType, cel.BoolType}, []*cel.Type{versionKind.of, versionKind.of}
	either := func(s string, normalize bool) (version, error) {
		if normalize {
			return parseLoosely(s)
		}
		return parseVersion(s)
	}
	part := func(name string, i int) cel.EnvOption {
		return member(name, "semver_"+name, versionKind.of, cel.IntType, func(v version) ref.Val { return types.Int(v.numbers[i]) })
	}
	return []cel.EnvOption{
		cel.Function("semver", cel.Overload("string_to_semver", text, versionKind.of, versionKind.converts()),
			cel.Overload("string_bool_to_semver", loose, versionKind.of, binary(func(s string, normalize bool) ref.Val {
				v, err := either(s, normalize)
				if err != nil {
					return types.NewErr("%v", err)
				}
				return versionKind.value(v)
			}))),
		cel.Function("isSemver", cel.Overload("is_semver_string", text, cel.BoolType, versionKind.tries()),
			cel.Overload("is_semver_string_bool", loose, cel.BoolType, binary(func(s string, normalize bool) ref.Val {
				_, err := either(s, normalize)
				return types.Bool(err == nil)
			}))),
		part("major", 0), part("minor", 1), part("patch", 2),
		cel.Function("isGreaterThan", cel.MemberOverload("semver_is_greater_than", two, cel.BoolType, binary(func(a, b version) ref.Val { return types.Bool(compareVersions(a, b) > 0) }))),
		cel.Function("isLessThan", cel.MemberOverload("semver_is_less_than", two, cel.BoolType, binary(func(a, b version) ref.Val { return types.Bool(compareVersions(a, b) < 0) }))),
		cel.Function("compareTo", cel.MemberOverload("semver_compare_to", two, cel.IntType, binary(func(a, b version) ref.Val { return types.Int(compareVersions(a, b)) }))),
	}
}
