package podconfig

import "strings"

// expand replaces $(NAME) by the value of a variable. $$ is a dollar, so that $$(NAME) is $(NAME)
// literally. Unknown variables, and anything else after a dollar, are not changed.
// https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
func expand(s string, lookup func(string) (string, bool)) string {
	var out strings.Builder
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
			end := strings.IndexByte(s, ')')
			if end < 0 {
				out.WriteString(s[:2])
				s = s[2:]
				continue
			}
			if value, ok := lookup(s[2:end]); ok {
				out.WriteString(value)
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

func expandAll(list []string, lookup func(string) (string, bool)) []string {
	var out []string
	for _, s := range list {
		out = append(out, expand(s, lookup))
	}
	return out
}
