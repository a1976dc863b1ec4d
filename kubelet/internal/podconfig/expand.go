package podconfig

import (
	"errors"
	"strings"
)

// maxExpanded bounds the variables of a container and what they expand to, in bytes: a runtime takes a
// message of 16 MiB, and Linux no command with as much as that. A small pod can ask for more: each variable
// can have the one before it twice, and each item of envFrom the same large secret.
const maxExpanded = 16 << 20

var errTooMuchExpanded = errors.New("env, envFrom, command, args and subPathExpr of the container expand to more than 16 MiB")

// A budget is how many bytes a container may still have; negative if it has too many.
type budget int

// take takes n bytes. It returns false if there are fewer.
func (b *budget) take(n int) bool {
	*b = max(*b-budget(n), -1)
	return *b >= 0
}

func (b *budget) err() error {
	if *b < 0 {
		return errTooMuchExpanded
	}
	return nil
}

// expand replaces $(NAME) by the value of a variable. $$ is a dollar, so that $$(NAME) is $(NAME)
// literally. Unknown variables, and anything else after a dollar, are not changed.
// https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
// What does not fit into the budget is left out.
func expand(s string, lookup func(string) (string, bool), left *budget) string {
	var out strings.Builder
	open := true // there may be another closing parenthesis
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 || i+1 == len(s) {
			out.WriteString(s)
			return out.String()
		}
		out.WriteString(s[:i])
		s = s[i:]
		switch s[1] {
		case '$':
			out.WriteByte('$')
			s = s[2:]
		case '(':
			end := -1
			if open {
				end = strings.IndexByte(s, ')')
			}
			if end < 0 {
				open = false // do not search the rest for each of the others
				out.WriteString(s[:2])
				s = s[2:]
				continue
			}
			if value, ok := lookup(s[2:end]); ok {
				if left.take(len(value)) {
					out.WriteString(value)
				}
			} else {
				out.WriteString(s[:end+1])
			}
			s = s[end+1:]
		default:
			out.WriteString(s[:2])
			s = s[2:]
		}
	}
}

func expandAll(list []string, lookup func(string) (string, bool), left *budget) []string {
	var out []string
	for _, s := range list {
		out = append(out, expand(s, lookup, left))
	}
	return out
}
