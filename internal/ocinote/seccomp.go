package ocinote

import "errors"

// editSeccomp completes the profile that the engine has put in.
func editSeccomp(spec object, note Note) error {
	if len(note.Seccomp) == 0 {
		return nil
	}
	linux, err := spec.child("linux")
	if err != nil {
		return err
	}
	if linux["seccomp"] == nil {
		return errors.New("linux.seccomp is missing, but the note adds fields to it")
	}
	profile, err := linux.child("seccomp")
	if err != nil {
		return err
	}
	for field, value := range note.Seccomp {
		profile[field] = value
	}
	return nil
}
