package fields

import "github.com/criadapter/criadapter/docker"

// Ability says whether an engine does what some fields ask for.
type Ability struct {
	// Fields are named Message.field.
	Fields []string `json:"fields"`
	// Available reports whether the engine does it.
	Available bool `json:"available"`
	// Needs is the engine or runtime that does.
	Needs string `json:"needs"`
}

// Abilities returns what an engine does of the fields that not every engine does, in the order of the table.
func Abilities(engine docker.Features) []Ability {
	var abilities []Ability
	for _, row := range table() {
		if row.has != nil {
			abilities = append(abilities, Ability{Fields: row.fields, Available: row.has(engine), Needs: row.needs})
		}
	}
	return abilities
}
