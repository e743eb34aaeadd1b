"""How the answers to each data set of reasoning-gym are graded; by examination of version 0.1.25, see GymGrader."""

from typing import Literal

GymGrader = Literal["literal", "scorer"]
"""`literal`: one number or text is right, and it is compared as written. An expression is no answer there, since the
question itself would be one. `scorer`: many answers are right, or many forms of it, and only the data set's own scorer
can tell."""

_LITERAL = """
ab acre aiw arc_1d arc_agi base_conversion basic_arithmetic bf binary_alternation binary_matrix bitwise_arithmetic
caesar_cipher calendar_arithmetic chain_sum circuit_logic color_cube_rotation count_bits count_primes course_schedule
decimal_chain_sum dice emoji_mystery family_relationships figlet_font futoshiki game_of_life game_of_life_halting gcd
gsm_symbolic largest_island lcm leg_counting letter_counting letter_jumble list_functions mahjong_puzzle
manipulate_matrix maze mini_sudoku modulo_grid needle_haystack number_filtering number_format number_sequence
number_sorting path_star products rearc rectangle_count rotate_matrix rotten_oranges self_reference
sentence_reordering simple_equations simple_geometry spell_backward spiral_matrix string_insertion
string_manipulation string_splitting string_synthesis sudoku survo syllogism tsumego word_sequence_reversal
word_sorting zebra_puzzles
"""

_SCORER = """
advanced_geometry boxnet coin_flip complex_arithmetic countdown cryptarithm decimal_arithmetic fraction_simplification
graph_color group_anagrams intermediate_integration jugs kakurasu knights_knaves n_queens palindrome_generation
palindrome_partitioning polynomial_equations pool_matrix power_function prime_factorization propositional_logic
quantum_lock rubiks_cube rush_hour shortest_path simple_integration sokoban time_intervals tower_of_hanoi word_ladder
"""

GRADERS: dict[str, GymGrader] = {
    **dict.fromkeys(_LITERAL.split(), "literal"),
    **dict.fromkeys(_SCORER.split(), "scorer"),
}

_OTHER_PROBLEMS = (
    "it gives other problems in each process, because it goes through sets in the order of Python's random hashes, so "
    "that a run could not be resumed"
)

REFUSED: dict[str, str] = {
    "codeio": "its generator runs programs that a language model wrote, in the process that trains",
    "composite": "it mixes others; name those as separate sources",
    "puzzle24": "its scorer accepts any four numbers, not only those of the question",
    "isomorphic_strings": _OTHER_PROBLEMS,
    "knight_swap": _OTHER_PROBLEMS,
    "polynomial_multiplication": _OTHER_PROBLEMS,
    "ransom_note": _OTHER_PROBLEMS,
}

# These make all their problems when they are made themselves, or know no index beyond their size.
BOUNDED = frozenset({"acre", "gsm_symbolic", "list_functions", "word_ladder"})
